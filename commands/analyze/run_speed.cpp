#include "commands/analyze/run_speed.h"

#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/exit_status.h"
#include "report/diagnosis/rank_view.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace xpurun::launcher {

int status_of(const report::SpeedOfRun& speed) {
  return speed.notes.empty() ? 0 : kExitFailure;
}

base::Result<report::SpeedOfRun> read_run_speed(const std::vector<std::string>& operands,
                                                const report::SpeedReading& reading) {
  XPURUN_TRY_ASSIGN(const report::JobRuns job, report::read_job(operands));
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
  const bool one_node = job.nodes.size() == 1;
  if (const size_t started = one_node ? report::started_by_only_rank(job.nodes.front().run) : 0;
      started > 0) {
    return base::fail(
        {.what = base::cli_text("the main process made no steps that xpurun can see"),
         .id = "E-NO-DATA",
         .cause = base::cli_text(
             "it started {} with multiprocessing, without torch.distributed; xpurun sees "
             "their stacks, hangs and deaths, but not their steps",
             started == 1 ? base::cli_text("a process") : base::cli_text("{} processes", started)),
         .hint = "run the job again, and while it runs: xpurun record --run latest --workers"});
  }
  std::error_code ec;
  if (std::filesystem::is_regular_file(operands.front(), ec)) {
    return base::fail(
        {.what = base::cli_text("{} has no work of a GPU, no collective and no step",
                                base::sanitize(operands.front())),
         .id = "E-NO-DATA",
         .cause = base::cli_text("the time line and the table spans of queries have its events"),
         .hint = fmt::format("xpurun timeline {}", base::shell_quote(operands.front()))});
  }
  return base::fail(
      {.what = base::cli_text("the run holds no spans and no timed calls"),
       .id = "E-NO-DATA",
       .cause = base::cli_text(
           "no rank was a Python process with torch, or xpurun's Python hooks and timing were off"),
       .hint = "run the job without --no-python-hooks"});
}

}  // namespace xpurun::launcher
