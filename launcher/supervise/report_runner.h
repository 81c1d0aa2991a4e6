// ReportRunner: has `xpurun report DIR --quiet` diagnose and draw in a process of its own, so that nothing
// heavy or hostile is parsed in the supervisor. One at a time; a request during a run leads to one more run.
#pragma once

#include "common/base/wait_status.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/supervise/event_loop.h"

#include <functional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class ReportRunner {
 public:
  ReportRunner(EventLoop& loop, std::string run_dir, sigset_t mask);
  ~ReportRunner() { loop_.cancel(deadline_); }
  ReportRunner(const ReportRunner&) = delete;
  ReportRunner& operator=(const ReportRunner&) = delete;

  // `started` is told the pid; `ended` is called after each run, successful or not, and `done` after it if no
  // more are asked for.
  void set_handlers(std::function<void(base::Pid)> started, std::function<void()> ended,
                    std::function<void()> done);
  void set_stderr(int fd) { stderr_fd_ = fd; }
  void request();
  bool busy() const { return helper_.pid() > 0; }
  // To be called by the reaper. Returns whether the pid was ours.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void start();

  EventLoop& loop_;
  std::string run_dir_;
  sigset_t mask_;
  int stderr_fd_ = -1;
  HelperProcess helper_;
  bool again_ = false;
  EventLoop::TimerId deadline_ = 0;
  std::function<void(base::Pid)> started_;
  std::function<void()> ended_;
  std::function<void()> done_;
};

}  // namespace xpurun::launcher
