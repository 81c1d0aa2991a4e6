// EvidenceJob: lets a helper process (evidence_helper.h) collect the evidence of one dump within a time
// limit. The supervisor owns and drives it; no function blocks.
#pragma once

#include "common/base/os/wait_status.h"
#include "launcher/evidence/evidence_request.h"
#include "launcher/os/timer.h"
#include "launcher/spawn/helper_process.h"

#include <functional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class EvidenceJob {
 public:
  struct Setup {
    EventLoop& loop;
    sigset_t signal_mask{};
    int stderr_fd = -1;                      // the helper's standard error
    std::function<void(base::Pid)> started;  // receives the helper's pid, so that the helper is not taken for
                                             // a process of the job
    std::string program = "/proc/self/exe";  // the link, because xpurun may have been reinstalled in the
                                             // meantime
    double kill_after_limit_s = 5;           // the helper ends itself at its limit; it is killed this many
                                             // seconds later, because a busy node starts a process slowly
  };
  using Done = std::function<void()>;

  explicit EvidenceJob(Setup setup) : setup_(std::move(setup)) {}
  EvidenceJob(const EvidenceJob&) = delete;
  EvidenceJob& operator=(const EvidenceJob&) = delete;

  // Calls `done` once, from the event loop: when the helper has ended, or `kill_after_limit_s` after the
  // limit. Gives up a job in progress first.
  void start(const EvidenceRequest& request, Done done);
  bool busy() const { return done_ != nullptr; }
  // Limits the remaining time of the job to `seconds`.
  void hurry(double seconds);
  // Kills the helper and calls `done`. A helper in uninterruptible sleep is abandoned.
  void give_up(const std::string& why);
  // Call for every reaped child. True if the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void set_deadline(base::MonoNs when);
  void finish();

  Setup setup_;
  HelperProcess helper_;
  Done done_;
  Timer deadline_{setup_.loop};
  base::MonoNs deadline_at_ = 0;
};

}  // namespace xpurun::launcher
