#include "launcher/supervise/handlers/death_handler.h"

namespace xpurun::launcher {

namespace {
// A rank's failure needs no dump of its own within this time after another dump.
constexpr double kDumpedRecentlyS = 3;
}  // namespace

void DeathHandler::process_died(const TrackedProcess& process, base::WaitStatus status, bool failed) {
  // Copies: the table may forget the process when the dump begins.
  const base::Pid pid = process.record.pid;
  const base::Rank rank = process.record.rank;
  const bool is_rank = process.record.role == model::ProcessRole::rank;
  hooks_.ended(pid, status);
  parts_.dumps.process_ended(pid);
  if (failed) {
    hooks_.failed(process, status);
  }
  if (!failed || !is_rank || parts_.job.ended_by_us) {
    return;
  }
  // The death of the main process is the end of the job and needs no dump of its own.
  if (pid != parts_.table.main() && !parts_.dumps.dumped_within(kDumpedRecentlyS)) {
    parts_.dumps.request({.why = model::DumpReason::death, .trigger = rank, .reply = {}});
  }
  hooks_.rank_failed(rank);
}

}  // namespace xpurun::launcher
