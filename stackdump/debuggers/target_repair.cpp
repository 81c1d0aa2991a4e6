#include "stackdump/debuggers/target_repair.h"

#include "common/base/os/procfs.h"

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

// PTRACE_ATTACH queues SIGSTOP for one thread (SigPnd). kill() queues for the process (ShdPnd), so a user's
// stop can be told apart.
bool has_stop_of_debugger(base::Pid pid) {
  const base::ProcFs proc;
  const auto threads = proc.threads(pid);
  return std::any_of(threads.begin(), threads.end(), [&](base::Tid tid) {
    const auto status = proc.thread_status(pid, tid);
    return status && (status->thread_pending & bit(SIGSTOP)) != 0;
  });
}

bool has_stop_of_user(base::Pid pid) {
  const auto status = base::ProcFs().status(pid);
  return status && (status->process_pending & (bit(SIGSTOP) | bit(SIGTSTP))) != 0;
}

}  // namespace

TargetRepair::TargetRepair(base::Pid pid)
    : pid_(pid), pidfd_(pid == 0 ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {
  const auto stat = base::ProcFs().stat(pid);
  stopped_before_ = stat && stat->state == 'T';
}

// The kernel detaches the threads of a dead tracer, but each thread may still have its SIGSTOP: pending (in
// state D until the sleep ends), dequeued but not acted on, or acted on (state T, TracerPid 0). The second
// case is not visible in /proc. SIGCONT ends all three: prepare_signal() in the kernel removes stop signals
// from every thread's queue and cancels stops in progress, in every thread state. So no wait is needed and,
// after a killed tracer, no check either.
void TargetRepair::after_tracer(TracerEnd end) const {
  if (pid_ == 0 || stopped_before_ || (end == TracerEnd::detached && !has_stop_of_debugger(pid_))) {
    return;
  }
  const bool user_stop = has_stop_of_user(pid_);
  const auto send = [this](int signal) {
    // pidfd_open() needs Linux 5.3.
    if (pidfd_) {
      ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
    } else {
      ::kill(pid_, signal);
    }
  };
  send(SIGCONT);
  if (user_stop) {
    send(SIGSTOP);  // SIGCONT has discarded the user's stop
  }
}

bool TargetRepair::target_gone() const {
  pollfd target{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  return pidfd_ ? ::poll(&target, 1, 0) > 0 : ::kill(pid_, 0) != 0;
}

std::optional<base::Tid> uninterruptible_thread(base::Pid pid) {
  const base::ProcFs proc;
  for (const base::Tid tid : proc.threads(pid)) {
    if (const auto stat = proc.thread_stat(pid, tid); stat && stat->state == 'D') {
      return tid;
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
