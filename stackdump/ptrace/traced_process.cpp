#include "stackdump/ptrace/traced_process.h"

#include "common/base/procfs.h"
#include "stackdump/ptrace/access.h"

#include <cerrno>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <utility>

namespace xpurun::stackdump {

namespace {

constexpr int kMaxRounds = 16;                // rescans for threads that appeared meanwhile
constexpr int64_t kSleepCheckNs = 2'000'000;  // a thread silent for so long is looked at in /proc
constexpr timespec kPollPause{.tv_nsec = 100'000};

}  // namespace

TracedProcess::TracedProcess(TracedProcess&& other) noexcept
    : pid_(other.pid_),
      deadline_(other.deadline_),
      first_stop_ns_(other.first_stop_ns_),
      attach_errno_(other.attach_errno_),
      threads_(std::exchange(other.threads_, {})),
      index_(std::exchange(other.index_, {})) {}

base::Result<TracedProcess> TracedProcess::stop(base::Pid pid, base::MonoNs deadline) {
  TracedProcess p(pid, deadline);
  // Threads that run while others are being stopped may start new ones; done when a scan finds none.
  for (int round = 0; round < kMaxRounds; ++round) {
    if (p.attach_new() == 0) {
      break;
    }
    p.wait_for_stops();
    if (base::mono_ns() >= deadline) {
      break;
    }
  }
  if (p.threads_.empty()) {
    return base::fail(explain_refusal(pid, p.attach_errno_ != 0 ? p.attach_errno_ : ESRCH));
  }
  return p;
}

size_t TracedProcess::attach_new() {
  const size_t first_new = threads_.size();
  for (base::Tid tid : base::ProcFs().threads(pid_)) {
    if (index_.contains(tid)) {
      continue;
    }
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH) {
        attach_errno_ = errno;
      }
      continue;  // exited meanwhile, a zombie leader, or refused
    }
    index_.emplace(tid, threads_.size());
    threads_.push_back({.tid = tid});
  }
  if (first_stop_ns_ == 0 && !threads_.empty()) {
    first_stop_ns_ = base::mono_ns();
  }
  for (size_t i = first_new; i < threads_.size(); ++i) {
    ::ptrace(PTRACE_INTERRUPT, threads_[i].tid, nullptr, nullptr);
  }
  return threads_.size() - first_new;
}

void TracedProcess::poll(TracedThread& thread) {
  int status = 0;
  const pid_t got = ::waitpid(thread.tid, &status, __WALL | WNOHANG);
  if (got == 0) {
    return;
  }
  if (got < 0 || !WIFSTOPPED(status)) {
    thread.state = StopState::gone;
    return;
  }
  thread.state = StopState::stopped;
  // A stop without an event is a signal on its way to the thread: it must not get lost. Event stops are our
  // interrupt or a job-control stop, whose signal has been consumed already.
  if (status >> 16 == 0) {
    thread.pending_signal = WSTOPSIG(status);
  }
}

void TracedProcess::wait_for_stops() {
  const base::ProcFs proc;
  base::MonoNs check_sleep_at = base::mono_ns() + kSleepCheckNs;
  for (;;) {
    size_t waiting = 0;
    for (TracedThread& t : threads_) {
      if (t.state == StopState::seized) {
        poll(t);
        waiting += t.state == StopState::seized ? 1 : 0;
      }
    }
    const base::MonoNs now = base::mono_ns();
    if (waiting == 0 || now >= deadline_) {
      return;
    }
    if (now >= check_sleep_at) {
      check_sleep_at = now + kSleepCheckNs;
      for (TracedThread& t : threads_) {
        if (t.state == StopState::seized) {
          const auto stat = proc.thread_stat(pid_, t.tid);
          if (!stat || stat->state == 'Z' || stat->state == 'X') {
            t.state = StopState::gone;
          } else if (stat->state == 'D') {
            t.state = StopState::asleep;
          }
        }
      }
    }
    ::nanosleep(&kPollPause, nullptr);
  }
}

std::optional<Registers> TracedProcess::registers(const TracedThread& thread) const {
  if (thread.state != StopState::stopped) {
    return std::nullopt;
  }
  user_regs_struct regs{};
  iovec io{&regs, sizeof regs};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (::ptrace(PTRACE_GETREGSET, thread.tid, reinterpret_cast<void*>(NT_PRSTATUS), &io) != 0 ||
      io.iov_len != sizeof regs) {  // a 32-bit thread has fewer
    return std::nullopt;
  }
  return from_user_regs(regs);
}

void TracedProcess::resume() {
  for (TracedThread& t : threads_) {
    if (t.state == StopState::seized || t.state == StopState::asleep) {
      poll(t);  // it may have stopped at the last moment
    }
    if (t.state == StopState::stopped) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      auto* signal = reinterpret_cast<void*>(static_cast<intptr_t>(t.pending_signal));
      ::ptrace(PTRACE_DETACH, t.tid, nullptr, signal);
    }
  }
  threads_.clear();
  index_.clear();
}

}  // namespace xpurun::stackdump
