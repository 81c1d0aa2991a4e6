#include "launcher/processes/death_ledger.h"

#include "common/base/os/wait_status.h"
#include "common/base/tr.h"
#include "launcher/os/signals.h"

#include <fmt/format.h>

#include <algorithm>
#include <signal.h>
#include <sys/wait.h>

namespace xpurun::launcher {

void DeathLedger::termination_notice(base::Pid pid, base::Pid sender, bool sender_is_launcher) {
  terminations_.push_back({pid, sender, sender_is_launcher});
}

model::Death DeathLedger::record(base::Pid pid, double at_s, base::WaitStatus status) {
  model::Death d{.happened = true, .order = ++order_, .at_s = at_s, .wait_status = status};
  const bool failed = !status.succeeded();
  const int signal = status.signal();
  const auto term = std::find_if(terminations_.begin(), terminations_.end(),
                                 [&](const Termination& t) { return t.pid == pid; });
  if (!failed) {
    return d;
  }
  if (ended_by_us(pid)) {
    d.follower = true;
    d.cause_hint = base::later("ended by xpurun");
    // A launcher sends SIGTERM, and SIGKILL after its own grace time.
  } else if (term != terminations_.end() && (signal == SIGTERM || signal == SIGKILL) && term->by_launcher) {
    d.follower = true;
    d.cause_hint = base::later("ended by the launcher");
  } else if (forwarded_ != 0) {
    d.follower = true;
    d.cause_hint = base::later("after a signal that xpurun forwarded");
  } else if (failure_seen_ && (signal == SIGTERM || signal == SIGKILL)) {
    d.follower = true;
    d.cause_hint = base::later("after an earlier failure");
  } else if (term != terminations_.end() && signal == SIGTERM) {
    d.cause_hint = fmt::format("SIGTERM from pid {}", term->sender);
  }
  failure_seen_ = failure_seen_ || !d.follower;
  return d;
}

}  // namespace xpurun::launcher
