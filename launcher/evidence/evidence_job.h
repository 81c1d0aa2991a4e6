// EvidenceJob: has the evidence of one dump collected by a helper process (evidence_helper.h) within a time
// limit. Owned and driven by the supervisor; no function blocks.
#pragma once

#include "common/base/os/wait_status.h"
#include "launcher/evidence/evidence_request.h"
#include "launcher/os/event_loop.h"
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
    int stderr_fd = -1;                      // standard error of the helper
    std::function<void(base::Pid)> started;  // told the helper's pid, so that it is no process of the job
    std::string program = "/proc/self/exe";  // the link: xpurun may have been installed anew meanwhile
  };
  using Done = std::function<void()>;

  explicit EvidenceJob(Setup setup) : setup_(std::move(setup)) {}
  ~EvidenceJob();
  EvidenceJob(const EvidenceJob&) = delete;
  EvidenceJob& operator=(const EvidenceJob&) = delete;

  // Calls `done` once, from the loop: when the helper has ended, or shortly after the limit. A job under way
  // is given up first.
  void start(const EvidenceRequest& request, Done done);
  bool busy() const { return done_ != nullptr; }
  // Leaves the job `seconds` more at most.
  void hurry(double seconds);
  // Ends the helper and calls `done`. A helper in uninterruptible sleep is left behind.
  void give_up(const std::string& why);
  // Call for every reaped child. Returns whether the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void set_deadline(base::MonoNs when);
  void finish();

  Setup setup_;
  HelperProcess helper_;
  Done done_;
  EventLoop::TimerId deadline_ = 0;
  base::MonoNs deadline_at_ = 0;
};

}  // namespace xpurun::launcher
