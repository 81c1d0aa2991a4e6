#include "launcher/supervise/reporting/rank_progress.h"

namespace xpurun::launcher {

TimingService::RankProgress rank_progress(const ProgressSources& sources, base::Pid pid,
                                          std::optional<double> still_s) {
  const double timeout_s = sources.hang_timeout_s;
  const double still = still_s.value_or(-1);
  const TrackedProcess* p = sources.table.find(pid);
  const auto seen = sources.steps.rank(p == nullptr ? base::kNoRank : p->record.rank);
  return {.still_s = still,
          .hung = sources.stall_open && timeout_s > 0 && still >= timeout_s,
          .steps = seen.steps,
          .step_s = seen.step_s};
}

}  // namespace xpurun::launcher
