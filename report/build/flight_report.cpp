#include "report/build/flight_report.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "common/model/run_dir.h"
#include "report/diagnosis/diagnose.h"
#include "report/flight_recorder/dump_files.h"
#include "report/flight_recorder/nccl_ras.h"
#include "report/flight_recorder/ras_facts.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/run/findings.h"
#include "report/run/run_report.h"

#include <fmt/format.h>

#include <iterator>

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

constexpr size_t kLargestRas = size_t{256} << 20;
constexpr size_t kRasHead = 8192;

enum class Source { dumps, ras };

std::string without_answer(const model::RankSet& silent) {
  return silent.size() == 1
             ? tr("rank {} gave NCCL's RAS no answer: dead, stopped or unreachable", silent.brief())
             : tr("ranks {} gave NCCL's RAS no answer: dead, stopped or unreachable", silent.brief());
}

std::string without_dump(const model::RankSet& silent) {
  return silent.size() == 1
             ? tr("rank {} left no readable dump: dead, or without a Flight Recorder", silent.brief())
             : tr("ranks {} left no readable dump: dead, or without a Flight Recorder", silent.brief());
}

// What the evidence begins with: lines about ranks of which nothing is known, and about what the source
// cannot say.
std::vector<std::string> words_on_source(Source source, const model::RankSet& silent,
                                         const std::vector<std::string>& notes) {
  std::vector<std::string> out;
  if (!silent.empty()) {
    out.push_back(source == Source::ras ? without_answer(silent) : without_dump(silent));
  }
  if (source == Source::ras) {
    out.push_back(tr(
        "NCCL's RAS says what was launched at one moment; if the numbers of a later look are higher, the job "
        "works"));
  }
  for (const std::string& note : source == Source::ras ? notes : std::vector<std::string>()) {
    out.push_back(fmt::format("NCCL's RAS: {}", note));
  }
  return out;
}

void put_first(std::vector<std::string>& to, std::vector<std::string> lines) {
  to.insert(to.begin(), std::make_move_iterator(lines.begin()), std::make_move_iterator(lines.end()));
}

base::Result<FlightFacts> read_facts(const std::string& place, Source source) {
  if (source == Source::dumps) {
    return read_flight_files(find_flight_files(place));
  }
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(place, kLargestRas));
  const auto status = parse_ras(text);
  if (!status) {
    return base::fail(base::Error(status.error()).context(place));
  }
  return facts_of_ras(*status);
}

base::Error nothing_readable(const std::string& dir, const FlightFacts& flight, Source source) {
  if (source == Source::ras) {
    return {
        .what = fmt::format("{} names no rank", dir),
        .id = "E-NO-RUN",
        .cause =
            "NCCL's RAS lists ranks where they differ, and all of them in JSON (ncclras -f json) or with -v"};
  }
  return {.what = fmt::format("{} holds no readable Flight Recorder dump", dir),
          .id = "E-NO-RUN",
          .cause = flight.notes.empty() ? "" : flight.notes.front()};
}

}  // namespace

bool is_flight_directory(const std::string& dir) {
  return !base::file_exists(model::RunDir(dir).run_json()) && !find_flight_files(dir).empty();
}

bool is_ras_file(const std::string& path) {
  const auto head = base::read_file_start(path, kRasHead);
  return head && looks_like_ras(*head);
}

base::Result<BuildResult> build_flight_report(const std::string& dir, const std::string& out_dir,
                                              const BuildOptions& options) {
  const Source source = is_ras_file(dir) ? Source::ras : Source::dumps;
  XPURUN_TRY_ASSIGN(FlightFacts flight, read_facts(dir, source));
  if (flight.facts.empty()) {
    return base::fail(nothing_readable(dir, flight, source));
  }
  BuildResult result;
  if (source == Source::dumps) {
    result.notes = flight.notes;
  }
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
  put_first(result.verdict.evidence, words_on_source(source, silent, flight.notes));
  {
    const base::Speaking speaking(options.language);
    put_first(spoken.evidence, words_on_source(source, silent, flight.notes));
  }
  const bool accused = result.verdict.ranks.minus(silent).size() < result.verdict.ranks.size();
  if ((accused || source == Source::ras) && result.verdict.confidence == model::Confidence::high) {
    result.verdict.confidence = spoken.confidence = model::Confidence::medium;
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
