#include "report/build/speed_files.h"

#include "common/base/tr.h"
#include "report/build/capture_files.h"
#include "report/build/idle/idle_files.h"
#include "report/build/rank_files.h"
#include "report/operations/analysis.h"
#include "report/profile/captured_functions.h"
#include "report/profile/throttling.h"
#include "report/speed/analysis.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <utility>

namespace xpurun::report {

namespace {

std::string in_capture(const model::CapturedFunction& f) {
  return base::tr("; in a capture, ") + ranks_excess(f);
}

// What the blamed ranks do more than the others, from the newest capture that shows it.
void name_functions(model::SpeedReport& report, base::Language language) {
  for (model::SpeedFinding& finding : report.findings) {
    if (finding.problem != model::SpeedProblem::slow_rank) {
      continue;
    }
    for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
      if (const model::CapturedFunction* f = blamed_function(*c, finding.ranks)) {
        finding.function = place_of(*f);
        finding.sentence += in_capture(*f);
        const base::Speaking speaking(language);
        finding.spoken += in_capture(*f);
        break;
      }
    }
  }
}

// Clocks that are lower than the others' explain why the same work takes longer.
void name_throttling(model::SpeedReport& report, base::Language language) {
  for (model::SpeedFinding& finding : report.findings) {
    const bool may_be =
        finding.cause == model::SlowCause::gpu_compute || finding.cause == model::SlowCause::unknown;
    if (finding.problem != model::SpeedProblem::slow_rank || !may_be) {
      continue;
    }
    for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
      const std::string words = throttling_words(c->gpu, finding.ranks);
      if (words.empty()) {
        continue;
      }
      for (model::CauseShare& share : report.what_if) {
        share.cause = share.cause == finding.cause ? model::SlowCause::throttling : share.cause;
      }
      finding.cause = model::SlowCause::throttling;
      finding.next = next_step(finding);
      finding.sentence += "; in a capture, " + words;
      const base::Speaking speaking(language);
      finding.spoken += base::tr("; in a capture, ") + throttling_words(c->gpu, finding.ranks);
      break;
    }
  }
}

}  // namespace

SpeedOfRun read_speed(const JobRuns& job, const SpeedReading& reading) {
  SpeedOfRun out;
  RankFiles files(job, reading.ranks);
  SpeedAnalysis analysis(files.size(), {.language = reading.language});
  OperationAnalysis operations;
  IdleFiles idle(job, reading.ranks);
  files.read(RankFiles::Kinds::all, [&](const RankInput& input) {
    analysis.add(input);
    operations.add(input);
    idle.add(input);
    ++out.ranks;
  });
  out.notes = files.notes();
  StepTable steps;
  out.report = analysis.finish(reading.series ? &steps : nullptr);
  std::vector<model::DurationRow> of_steps = std::move(out.report.operations.durations);
  out.report.operations = operations.finish();
  std::vector<model::DurationRow>& durations = out.report.operations.durations;
  durations.insert(durations.begin(), of_steps.begin(), of_steps.end());
  out.report.operations.idle = idle.finish();
  out.notes.insert(out.notes.end(), idle.notes().begin(), idle.notes().end());
  if (reading.series) {
    out.samples = samples_of(out.report, steps, operations.samples());
  }
  Captures captures = read_captures(job);
  out.notes.insert(out.notes.end(), captures.notes.begin(), captures.notes.end());
  out.report.captures = std::move(captures.reports);
  name_throttling(out.report, reading.language);
  name_functions(out.report, reading.language);
  return out;
}

}  // namespace xpurun::report
