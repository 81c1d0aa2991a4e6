#include "report/build/flight_report.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "report/diagnosis/diagnose.h"
#include "report/flight_recorder/dump_files.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/run/findings.h"
#include "report/run/run_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::report {

namespace {

// What is known of the run: it hung, or nobody would have dumped, and how large it was.
model::RunManifest manifest_of(const std::string& dir, const FlightFacts& flight) {
  model::RunManifest run;
  run.id = model::RunDir(dir.ends_with('/') ? dir.substr(0, dir.size() - 1) : dir).id();
  run.world_size = flight.world_size;
  run.outcome = model::RunOutcome::hang;
  return run;
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
  if (!flight.silent.empty()) {
    model::RankSet silent;
    for (const base::Rank rank : flight.silent) {
      silent.insert(rank);
    }
    result.notes.push_back(fmt::format("no readable dump of {} {}: dead, or without its Flight Recorder",
                                       silent.size() == 1 ? "rank" : "ranks", silent.text()));
  }
  Facts facts{.run = manifest_of(dir, flight), .collectives = std::move(flight.facts)};
  result.verdict = diagnose(facts);
  if (options.on_verdict) {
    options.on_verdict(result.verdict);
  }
  const model::RunDir out(out_dir);
  XPURUN_TRY(base::make_own_dir(out_dir));
  const auto write = [&](const std::string& path, const std::string& text) -> base::Status {
    XPURUN_TRY(base::write_file_atomic(path, text));
    result.files.push_back(path);
    return {};
  };
  XPURUN_TRY(write(out.file("collectives.json"), to_json(facts.collectives).dump(1) + "\n"));
  XPURUN_TRY(write(out.verdict_json(), verdict_json(result.verdict)));
  RunReport report{
      .dir = out_dir, .run = std::move(facts.run), .verdict = result.verdict, .notes = result.notes};
  report.ranks = rank_rows(report.run, result.verdict, std::nullopt, {});
  report.findings = find_findings(report);
  XPURUN_TRY(write(out.report_json(), report_json(report, JsonLayout::indented)));
  if (options.write_html) {
    XPURUN_TRY(write(out.report_html(), report_html(report)));
  }
  return result;
}

}  // namespace xpurun::report
