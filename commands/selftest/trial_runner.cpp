#include "commands/selftest/trial_runner.h"

#include "commands/selftest/quiet_process.h"
#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace xpurun::launcher {

namespace {

constexpr double kWorthAWord = 0.01;  // share of the CPUs

}  // namespace

base::Result<TrialRunner> TrialRunner::create(TrialSettings settings, RunnerLimits limits,
                                              std::string xpurun) {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return base::fail_errno("cannot become the parent of orphans");
  }
  XPURUN_TRY_ASSIGN(EventLoop loop, EventLoop::create());
  XPURUN_TRY_ASSIGN(SignalInbox inbox, SignalInbox::open({}));
  return TrialRunner(std::move(settings), limits, std::move(xpurun), std::move(loop), std::move(inbox));
}

base::Result<int> TrialRunner::run(std::span<const Injection* const> injections,
                                   const std::function<void(const Trial&)>& done) {
  done_ = done;
  waiting_.assign(injections.begin(), injections.end());
  XPURUN_TRY(loop_.add(inbox_.fd(), EPOLLIN, [this](uint32_t) {
    inbox_.drain([this](const ReceivedSignal& received) {
      if (received.number != SIGCHLD) {
        interrupted(received.number);
      }
    });
  }));
  start_more();
  if (!running_.empty()) {
    XPURUN_TRY(loop_.run());
  }
  loop_.remove(inbox_.fd());
  return signal_;
}

void TrialRunner::start_more() {
  while (!waiting_.empty() && running_.size() < limits_.at_a_time) {
    const Injection& injection = *waiting_.front();
    waiting_.pop_front();
    if (const auto started = start(injection, 1); !started) {
      done_(failed_trial(injection, settings_, base::to_line(started.error())));
    }
  }
}

base::Status TrialRunner::start(const Injection& injection, int attempt) {
  const std::string suffix = attempt > 1 ? fmt::format("-{}", attempt) : "";
  Running trial{.injection = &injection,
                .directory = fmt::format("{}/{}{}", settings_.scratch, injection.name, suffix),
                .before = cpu_use_now(),
                .attempt = attempt};
  XPURUN_TRY(base::make_own_dir(trial.directory));
  XPURUN_TRY_ASSIGN(const base::Pid pid,
                    launcher::start({.argv = trial_command(xpurun_, injection, settings_, trial.directory),
                                     .env = job_environment(current_environment(), settings_.scratch),
                                     .directory = trial.directory,
                                     .output = trial.directory + "/output.txt",
                                     .signal_mask = inbox_.original_mask()}));
  XPURUN_TRY_ASSIGN(trial.process, Pidfd::open(pid));
  const Iterator running = running_.insert(running_.end(), std::move(trial));
  running->deadline = loop_.after(limits_.deadline_s, [this, running] { expire(running); });
  return loop_.add(running->process.fd(), EPOLLIN, [this, running](uint32_t) { ended(running); });
}

void TrialRunner::expire(Iterator running) {
  (void)running->process.send_signal(running->expired ? SIGKILL : SIGTERM);
  if (!running->expired) {
    running->deadline = loop_.after(limits_.grace_s, [this, running] { expire(running); });
  }
  running->expired = true;
}

void TrialRunner::ended(Iterator running) {
  loop_.remove(running->process.fd());
  loop_.cancel(running->deadline);
  int status = 0;
  ::waitpid(running->process.pid(), &status, 0);
  const Running trial = std::move(*running);
  running_.erase(running);
  const size_t strays = kill_strays();
  if (signal_ == 0) {
    report(trial, result_of(trial, base::WaitStatus(status), strays));
    start_more();
  }
  if (running_.empty()) {
    loop_.stop();
  }
}

Trial TrialRunner::result_of(const Running& running, base::WaitStatus status, size_t strays) const {
  Trial out = judge_trial(*running.injection, settings_, running.directory);
  if (running.expired) {
    out.differences.push_back(fmt::format("did not end within {:.0f} s", limits_.deadline_s));
  }
  if (!out.given) {
    out.differences.push_back(fmt::format("xpurun {}", status.text()));
  }
  if (strays != 0) {
    out.differences.push_back(fmt::format("{} processes were left behind", strays));
  }
  if (!out.differences.empty()) {
    out.outcome = TrialOutcome::wrong;
  }
  // Only the analysis can be wrong because all ranks were slow; a job has to end on every machine.
  out.analysed = out.analysed && !running.expired && strays == 0 && status.succeeded();
  return out;
}

void TrialRunner::report(const Running& running, Trial trial) {
  const auto now = cpu_use_now();
  const double others = running.before && now ? share_of_others(*running.before, *now) : 0;
  if (trial.outcome == TrialOutcome::wrong && trial.analysed && others > limits_.most_of_others) {
    if (running.attempt < limits_.attempts) {
      if (start(*running.injection, running.attempt + 1)) {
        return;
      }
    }
    trial.outcome = TrialOutcome::skipped;
    trial.reason = fmt::format("other programs used {:.0f} % of this machine's CPUs", others * 100);
    if (const double stolen = share_of_hypervisor(*running.before, *now); stolen >= kWorthAWord) {
      trial.reason += fmt::format(", with the hypervisor, which took {:.0f} %", stolen * 100);
    }
  }
  done_(trial);
}

void TrialRunner::interrupted(int signal) {
  if (signal_ == 0) {
    signal_ = signal;
    waiting_.clear();
  }
  for (const Running& trial : running_) {
    (void)trial.process.send_signal(SIGTERM);
  }
}

// The orphans of a trial are children of this process from the moment at which their xpurun has ended; those
// of the other trials are still their xpurun's.
size_t TrialRunner::kill_strays() const {
  const base::ProcFs proc;
  const base::MonoNs patience = base::mono_ns() + base::s_to_ns(limits_.linger_s);
  size_t killed = 0;
  for (;;) {
    bool alive = false;
    for (const base::Pid pid : proc.children(::getpid())) {
      const auto ours = [&](const Running& trial) { return trial.process.pid() == pid; };
      if (std::any_of(running_.begin(), running_.end(), ours) || ::waitpid(pid, nullptr, WNOHANG) != 0) {
        continue;
      }
      alive = true;
      if (base::mono_ns() >= patience) {
        killed += ::kill(pid, SIGKILL) == 0 ? 1 : 0;
        ::waitpid(pid, nullptr, 0);
      }
    }
    if (!alive) {
      return killed;
    }
    ::usleep(20'000);
  }
}

}  // namespace xpurun::launcher
