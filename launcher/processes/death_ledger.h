// DeathLedger: orders the deaths of a run and tells the first failure from those that merely followed it.
// Pure bookkeeping: no process is touched.
#pragma once

#include "common/base/ids.h"
#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

class DeathLedger {
 public:
  // From now on deaths are our doing (kill on hang, second interrupt) ...
  void we_are_ending_the_job() { ending_ = true; }
  // ... or what the user's forwarded signal asked for.
  void signal_was_forwarded(int signal) { forwarded_ = signal; }
  // The preload reported that `sender` sent SIGTERM to `pid`; `sender_is_launcher` if it is an agent of the
  // job.
  void termination_notice(base::Pid pid, base::Pid sender, bool sender_is_launcher);

  model::Death record(base::Pid pid, double at_s, base::WaitStatus status);

  // A process has already died of its own failure (nonzero status or signal).
  bool failure_seen() const { return failure_seen_; }

 private:
  struct Termination {
    base::Pid pid;
    base::Pid sender;
    bool by_launcher;
  };

  int order_ = 0;
  bool ending_ = false;
  int forwarded_ = 0;
  bool failure_seen_ = false;
  std::vector<Termination> terminations_;
};

}  // namespace xpurun::launcher
