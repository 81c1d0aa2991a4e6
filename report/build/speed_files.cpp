#include "report/build/speed_files.h"

#include "report/build/capture_files.h"
#include "report/build/idle/idle_files.h"
#include "report/build/rank_files.h"
#include "report/build/speed/capture_causes.h"
#include "report/build/speed/gpu_health_files.h"
#include "report/operations/analysis.h"
#include "report/operations/idle/void_outliers.h"
#include "report/speed/analysis.h"

#include <utility>

namespace xpurun::report {

SpeedOfRun read_speed(const JobRuns& job, const SpeedReading& reading) {
  SpeedOfRun out;
  RankFiles files(job, reading.ranks);
  SpeedAnalysis analysis(files.size(), {.language = reading.language});
  OperationAnalysis operations(files.size());
  IdleFiles idle(job, reading.ranks);
  GpuHealthFiles health(job);
  files.read(RankFiles::Kinds::all, [&](const RankRecord& input) {
    analysis.add(input);
    operations.add(input);
    idle.add(input);
    health.add(input);
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
  for (model::IdleTime& one : out.report.operations.idle) {
    mark_void_outliers(one, operations.roles());
  }
  out.notes.insert(out.notes.end(), idle.notes().begin(), idle.notes().end());
  Captures captures = read_captures(job, operations.roles(), operations.links());
  out.notes.insert(out.notes.end(), captures.notes.begin(), captures.notes.end());
  out.report.captures = std::move(captures.reports);
  out.notes.insert(out.notes.end(), health.notes().begin(), health.notes().end());
  const bool runs = !job.nodes.empty() && job.nodes.front().run.outcome == model::RunOutcome::running;
  if (!job.nodes.empty()) {
    add_awaited_ranks(out.report, job.nodes.front().run.awaited_ranks, reading.language);
  }
  name_from_captures(
      out.report, reading.language,
      [&health](int64_t from, int64_t until) { return health.between(from, until); },
      runs ? JobState::runs : JobState::ended);
  if (reading.series) {
    out.samples = samples_of(out.report, steps, operations.samples());
  }
  return out;
}

}  // namespace xpurun::report
