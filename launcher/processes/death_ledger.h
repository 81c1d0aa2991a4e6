// DeathLedger: orders the deaths of a run and separates the first failure from its followers. Pure
// bookkeeping: touches no process.
#pragma once

#include "common/base/ids.h"
#include "common/model/run_manifest.h"

#include <set>
#include <string>
#include <vector>

namespace xpurun::launcher {

class DeathLedger {
 public:
  // From now on xpurun causes the deaths (kill on hang, second interrupt).
  void we_are_ending_the_job() { ending_ = true; }
  // The same for one process only (restart on hang).
  void we_are_ending(base::Pid pid) { ended_.insert(pid); }
  bool ended_by_us(base::Pid pid) const { return ending_ || ended_.contains(pid); }
  // The user sent this signal and xpurun forwarded it.
  void signal_was_forwarded(int signal) { forwarded_ = signal; }
  // The preload library reported that `sender` sent SIGTERM to `pid`; `sender_is_launcher` if the sender is
  // an agent of the job.
  void termination_notice(base::Pid pid, base::Pid sender, bool sender_is_launcher);

  // Call once per death, in order. `at_s`: seconds since the run began. An unknown status counts as a
  // failure.
  model::Death record(base::Pid pid, double at_s, base::WaitStatus status);

  // Whether a process has already failed by itself (nonzero status or signal).
  bool failure_seen() const { return failure_seen_; }

 private:
  struct Termination {
    base::Pid pid;
    base::Pid sender;
    bool by_launcher;
  };

  int order_ = 0;
  bool ending_ = false;
  std::set<base::Pid> ended_;
  int forwarded_ = 0;
  bool failure_seen_ = false;
  std::vector<Termination> terminations_;
};

}  // namespace xpurun::launcher
