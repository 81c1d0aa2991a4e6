#include "stackdump/debuggers/target_repair.h"

#include "common/base/procfs.h"

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

// PTRACE_ATTACH queues SIGSTOP for the one thread. kill() queues for the process, so a user's stop differs.
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

// The kernel lets go of the threads of a dead tracer, but each may still have its SIGSTOP: pending (a thread
// in state D keeps it until that ends), taken from the queue but not acted on, or already acted on (state T,
// TracerPid 0). The second case shows nowhere in /proc. SIGCONT ends all three: prepare_signal() in the
// kernel empties every thread's queue of stop signals and cancels stops under way, whatever the state of the
// threads. So there is nothing to wait for, and after a tracer that was killed nothing to ask.
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
    send(SIGSTOP);  // SIGCONT has discarded it
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
