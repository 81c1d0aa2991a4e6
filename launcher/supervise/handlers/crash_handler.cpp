#include "launcher/supervise/handlers/crash_handler.h"

#include "common/base/os/wait_status.h"
#include "common/base/output/log.h"
#include "launcher/os/signals.h"

#include <signal.h>

namespace xpurun::launcher {

namespace {
// Crashes of processes that are no ranks, and dumps for them. A rank may start thousands of such processes.
constexpr size_t kMostHelpers = 100;
}  // namespace

void CrashHandler::process_crashed(const wire::Notice& n, base::Pid pid, base::Tid tid) {
  // The process may have crashed before any walk over /proc has found it.
  hooks_.look_at(pid);
  parts_.table.note_error_stream(pid);
  const TrackedProcess* p = parts_.table.find(pid);
  const model::ProcessRole role = p != nullptr ? p->record.role : model::ProcessRole::other;
  const base::Rank rank = p != nullptr ? p->record.rank : base::kNoRank;
  if (role != model::ProcessRole::rank && ++crashed_helpers_ > kMostHelpers) {
    hooks_.release(pid);
    return;
  }
  const TrackedProcess* sender = n.sender_pid > 0 ? parts_.table.find(n.sender_pid) : nullptr;
  const bool from_launcher = sender != nullptr && sender->record.role == model::ProcessRole::agent;
  base::log_info("pid {} ({}) reports {} (code {}, address {:#x}, sender {})", pid, name_of(role),
                 base::signal_name(n.signal), n.code, n.address, n.sender_pid);
  if (n.signal == SIGTERM) {
    parts_.ledger.termination_notice(pid, n.sender_pid, from_launcher);
  }
  auto& crashes = parts_.journal.manifest().crashes;
  crashes.push_back({.pid = pid,
                     .tid = tid,
                     .rank = rank,
                     .signal = n.signal,
                     .code = n.code,
                     .address = n.address,
                     .stack_overflow = (n.flags & wire::kNoticeStackOverflow) != 0,
                     .sender = n.sender_pid,
                     .at_s = parts_.journal.elapsed_s()});
  parts_.journal.changed();
  // A launcher ends the other ranks with SIGTERM after a first failure. Their stacks at that time explain
  // nothing.
  const bool aftermath =
      n.signal == SIGTERM && (from_launcher || parts_.ledger.failure_seen() || hooks_.was_interrupted());
  // While a dump runs, a crash still joins it, even if the command has ended.
  const bool too_late = parts_.job.ended_by_us || parts_.ledger.ended_by_us(pid) ||
                        (parts_.job.has_ended() && !parts_.dumps.busy());
  if (!model::takes_part(role) || aftermath || too_late) {
    hooks_.release(pid);
    return;
  }
  const model::DumpReason why =
      n.signal == SIGTERM ? model::DumpReason::terminated : model::DumpReason::crash;
  const auto fresh = parts_.dumps.request_for_crash({.pid = pid, .tid = tid, .ucontext = n.ucontext},
                                                    {.why = why, .trigger = rank, .reply = {}});
  if (fresh) {
    crashes.back().dump = *fresh;
    hooks_.release(pid);
  }
}

}  // namespace xpurun::launcher
