#include "report/build/flight_report.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "common/model/run_dir.h"
#include "report/diagnosis/diagnose.h"
#include "report/flight_recorder/dump_files.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/run/findings.h"
#include "report/run/run_report.h"

#include <fmt/format.h>

namespace xpurun::report {

using base::tr;

namespace {

// The known facts of the run: it hung, else there would be no dumps, and its size.
model::RunManifest manifest_of(const std::string& dir, const FlightFacts& flight) {
  model::RunManifest run;
  run.id = model::RunDir(dir.ends_with('/') ? dir.substr(0, dir.size() - 1) : dir).id();
  run.world_size = flight.world_size;
  run.outcome = model::RunOutcome::hang;
  return run;
}

model::RankSet silent_ranks(const FlightFacts& flight) {
  model::RankSet out;
  for (const base::Rank rank : flight.silent) {
    out.insert(rank);
  }
  return out;
}

// Few missing dumps are evidence; many were just not copied here.
bool accuses_silence(const FlightFacts& flight) {
  return flight.silent.size() * 4 <= flight.facts.ranks.size() + flight.silent.size();
}

std::string without_dump(const model::RankSet& silent) {
  return silent.size() == 1
             ? tr("rank {} left no readable dump: dead, or without a Flight Recorder", silent.brief())
             : tr("ranks {} left no readable dump: dead, or without a Flight Recorder", silent.brief());
}

base::Error nothing_readable(const std::string& dir, const FlightFacts& flight) {
  return {.what = fmt::format("{} holds no readable Flight Recorder dump", dir),
          .id = "E-NO-RUN",
          .cause = flight.notes.empty() ? "" : flight.notes.front()};
}

}  // namespace

bool is_flight_directory(const std::string& dir) {
  return !base::file_exists(model::RunDir(dir).run_json()) && !find_flight_files(dir).empty();
}

base::Result<BuildResult> build_flight_report(const std::string& dir, const std::string& out_dir,
                                              const BuildOptions& options) {
  FlightFacts flight = read_flight_files(find_flight_files(dir));
  if (flight.facts.empty()) {
    return base::fail(nothing_readable(dir, flight));
  }
  BuildResult result;
  result.notes = flight.notes;
  const model::RankSet silent = silent_ranks(flight);
  if (accuses_silence(flight)) {
    // Of a rank that stands outside torch there is often no dump. Its silence counts as "has not entered".
    for (const base::Rank rank : flight.silent) {
      flight.facts.ranks.push_back({.rank = rank});
    }
  }
  Facts facts{.run = manifest_of(dir, flight), .collectives = std::move(flight.facts)};
  result.verdict = diagnose(facts);
  model::Verdict spoken = diagnose_in(options.language, facts, result.verdict);
  if (!silent.empty()) {
    result.verdict.evidence.insert(result.verdict.evidence.begin(), without_dump(silent));
    const base::Speaking speaking(options.language);
    spoken.evidence.insert(spoken.evidence.begin(), without_dump(silent));
    const bool accused = result.verdict.ranks.minus(silent).size() < result.verdict.ranks.size();
    if (accused && result.verdict.confidence == model::Confidence::high) {
      result.verdict.confidence = spoken.confidence = model::Confidence::medium;
    }
  }
  if (options.on_verdict) {
    options.on_verdict(result.verdict, spoken);
  }
  const model::RunDir out(out_dir);
  XPURUN_TRY(base::make_own_dir(out_dir));
  const auto write = [&](const std::string& path, const std::string& text) -> base::Status {
    XPURUN_TRY(base::write_file_atomic(path, text));
    result.files.push_back(path);
    return {};
  };
  XPURUN_TRY(write(out.file("collectives.json"), model::document_text(facts.collectives, 1) + "\n"));
  XPURUN_TRY(write(out.verdict_json(), verdict_json(result.verdict)));
  RunReport report{
      .dir = out_dir, .run = std::move(facts.run), .verdict = result.verdict, .notes = result.notes};
  report.ranks = rank_rows(report.run, result.verdict, std::nullopt, {});
  report.findings = find_findings(report);
  XPURUN_TRY(write(out.report_json(), report_json(report, JsonLayout::indented)));
  const base::Speaking speaking(options.language);
  if (options.language != base::Language::english) {
    report.verdict = spoken;
    report.ranks = rank_rows(report.run, spoken, std::nullopt, {});
    report.findings = find_findings(report);
    result.spoken_report = report_json(report, JsonLayout::one_line);
  }
  if (options.write_html) {
    XPURUN_TRY(write(out.report_html(), report_html(report)));
  }
  return result;
}

}  // namespace xpurun::report
