// TrialRunner: runs trials, several at a time, each with a distant deadline. Single-threaded; run() blocks.
// Makes this process a subreaper for the rest of its life: processes that a trial leaves behind become its
// children, are killed, and make the trial wrong.
#pragma once

#include "commands/selftest/other_work.h"
#include "commands/selftest/trial.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/pidfd.h"
#include "launcher/os/signals.h"

#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct RunnerLimits {
  size_t at_a_time = 1;
  double deadline_s = 120;  // then the trial's xpurun gets SIGTERM
  double grace_s = 15;      // then SIGKILL
  double linger_s = 2;      // for processes that are about to end when their xpurun has ended
  // Slow jobs: the share of the CPUs above which other programs, or the hypervisor, may be the cause of a
  // wrong analysis: the analysis warns from this share on.
  double most_of_others = 0.05;
  int attempts = 3;  // of a slow job on a busy machine; then it is skipped
};

class TrialRunner {
 public:
  // `xpurun` is the program under which each trial runs.
  static base::Result<TrialRunner> create(TrialSettings settings, RunnerLimits limits, std::string xpurun);

  // Reports each result as soon as it is known, in the order in which the trials end. Returns the signal that
  // interrupted the run, or 0. After an interrupt, running trials are ended without a result.
  base::Result<int> run(std::span<const Injection* const> injections,
                        const std::function<void(const Trial&)>& done);

 private:
  struct Running {
    const Injection* injection;
    std::string directory;
    Pidfd process;
    EventLoop::TimerId deadline = 0;
    base::Result<CpuUse> before;  // when it started
    int attempt = 1;
    bool expired = false;
  };
  using Iterator = std::list<Running>::iterator;

  TrialRunner(TrialSettings settings, RunnerLimits limits, std::string xpurun, EventLoop loop,
              SignalInbox inbox)
      : settings_(std::move(settings)),
        limits_(limits),
        xpurun_(std::move(xpurun)),
        loop_(std::move(loop)),
        inbox_(std::move(inbox)) {}

  void start_more();
  base::Status start(const Injection& injection, int attempt);
  void expire(Iterator running);
  void ended(Iterator running);
  Trial result_of(const Running& running, base::WaitStatus status, size_t strays) const;
  // Reports the result, unless other programs may be the reason for it: then the trial is repeated.
  void report(const Running& running, Trial trial);
  void interrupted(int signal);
  size_t kill_strays() const;

  TrialSettings settings_;
  RunnerLimits limits_;
  std::string xpurun_;
  EventLoop loop_;
  SignalInbox inbox_;
  std::list<const Injection*> waiting_;
  std::list<Running> running_;
  std::function<void(const Trial&)> done_;
  int signal_ = 0;
};

}  // namespace xpurun::launcher
