#include "launcher/commands/analyze/run_speed.h"

#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

base::Result<report::JobRuns> read_runs(const std::vector<std::string>& operands) {
  std::vector<model::RunDir> dirs;
  for (const std::string& operand : operands) {
    XPURUN_TRY_ASSIGN(model::RunDir dir, model::RunDir::find(operand));
    dirs.push_back(std::move(dir));
  }
  return dirs.size() == 1 ? report::read_job(dirs.front()) : report::read_job(dirs);
}

}  // namespace

int status_of(const report::SpeedOfRun& speed) {
  return speed.notes.empty() ? 0 : kExitFailure;
}

base::Result<report::SpeedOfRun> read_run_speed(const std::vector<std::string>& operands,
                                                const report::SpeedReading& reading) {
  XPURUN_TRY_ASSIGN(const report::JobRuns job, read_runs(operands));
  report::SpeedOfRun speed = report::read_speed(job, reading);
  using Notes = const std::vector<std::string>*;
  for (const Notes notes : {Notes(&job.notes), Notes(&speed.notes)}) {
    for (const std::string& note : *notes) {
      base::write_stderr(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
    }
  }
  if (speed.ranks > 0) {
    return speed;
  }
  if (!reading.ranks.empty()) {
    return base::fail({.what = base::cli_text("no rank of {} has spans or timed calls in {}",
                                              reading.ranks.brief(), base::sanitize(operands.front())),
                       .id = "E-NO-DATA",
                       .cause = base::cli_text("the run may have fewer ranks"),
                       .hint = "xpurun analyze lists the ranks"});
  }
  return base::fail(
      {.what = base::cli_text("the run holds no spans and no timed calls"),
       .id = "E-NO-DATA",
       .cause = base::cli_text(
           "no rank was a Python process with torch, or xpurun's Python hooks and timing were off"),
       .hint = "run the job without --no-python-hooks"});
}

}  // namespace xpurun::launcher
