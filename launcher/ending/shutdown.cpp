#include "launcher/ending/shutdown.h"

#include "common/base/output/log.h"
#include "launcher/options/run_options.h"

#include <signal.h>

namespace xpurun::launcher {

namespace {
// Processes forked during the killing are found in the next round. Seconds.
constexpr double kKillRepeatS = 0.2;
// Time in seconds that a killed process may take to end: a GPU's driver cleans up after it.
constexpr double kLastWaitS = 10;
}  // namespace

void Shutdown::signal_all(int signal) {
  table_.refresh();
  for (const TrackedProcess* p : table_.living()) {
    // Without a free descriptor for a pidfd, the command can still be signalled by pid: it is a child of
    // xpurun.
    if (!p->pidfd && p->record.pid == table_.main()) {
      table_.signal_main(signal);
      continue;
    }
    if (!table_.signal(*p, signal)) {
      base::log_debug("process {} was not signalled: it has ended", p->record.pid);
    }
    // A stopped process handles SIGTERM only after SIGCONT.
    if (signal == SIGTERM) {
      (void)table_.signal(*p, SIGCONT);
    }
  }
}

void Shutdown::terminate(double grace_s) {
  if (active_) {
    return;
  }
  active_ = true;
  signal_all(SIGTERM);
  if (grace_s < kForever) {
    timer_.after(grace_s, [this] { kill_now(); });
  }
}

void Shutdown::kill_now() {
  active_ = true;
  timer_.stop();
  killed_at_ = killed_at_ != 0 ? killed_at_ : loop_.now();
  signal_all(SIGKILL);
  timer_.after(kKillRepeatS, [this] { kill_now(); });
}

bool Shutdown::has_work(base::MonoNs now) const {
  const bool given_up = killed_at_ != 0 && now - killed_at_ > base::s_to_ns(kLastWaitS);
  return active_ && timer_.running() && !given_up && !table_.living().empty();
}

}  // namespace xpurun::launcher
