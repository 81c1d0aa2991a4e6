#include "stackdump/ptrace/traced_process.h"

#include "common/base/os/procfs.h"
#include "stackdump/ptrace/access.h"
#include "stackdump/ptrace/wait_alarm.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <utility>

namespace xpurun::stackdump {

namespace {

constexpr size_t kVectorBytes = 1024;  // x86-64 needs 512
constexpr int kMaxRounds = 16;         // rescans for new threads
// A thread that has not stopped after this time is checked in /proc.
constexpr std::chrono::nanoseconds kSleepCheck{2'000'000};
constexpr std::chrono::nanoseconds kPollFor{300'000};
constexpr timespec kPollPause{.tv_nsec = 100'000};

}  // namespace

TracedProcess::TracedProcess(TracedProcess&& other) noexcept
    : pid_(other.pid_),
      deadline_(other.deadline_),
      only_(other.only_),
      first_stop_ns_(other.first_stop_ns_),
      attach_errno_(other.attach_errno_),
      threads_(std::exchange(other.threads_, {})),
      index_(std::exchange(other.index_, {})) {}

base::Result<TracedProcess> TracedProcess::stop(base::Pid pid, base::MonoNs deadline) {
  return TracedProcess(pid, deadline).stopped();
}

base::Result<TracedProcess> TracedProcess::stop_thread(base::Pid pid, base::Tid tid, base::MonoNs deadline) {
  TracedProcess one(pid, deadline);
  one.only_ = tid;
  return std::move(one).stopped();
}

base::Result<TracedProcess> TracedProcess::stopped() && {
  // Threads that still run may start new threads while others are being stopped. The scan repeats until no
  // new thread appears.
  for (int round = 0; round < kMaxRounds; ++round) {
    if (attach_new() == 0) {
      break;
    }
    wait_for_stops();
    if (base::mono_ns() >= deadline_) {
      break;
    }
  }
  if (threads_.empty()) {
    return base::fail(explain_refusal(pid_, attach_errno_ != 0 ? attach_errno_ : ESRCH));
  }
  return std::move(*this);
}

size_t TracedProcess::attach_new() {
  const size_t first_new = threads_.size();
  const auto threads = only_ != 0 ? std::vector<base::Tid>{only_} : base::ProcFs().threads(pid_);
  for (base::Tid tid : threads) {
    if (index_.contains(tid)) {
      continue;
    }
    // PTRACE_SEIZE, unlike PTRACE_ATTACH, sends no SIGSTOP: no stop signal stays pending in the target if
    // this process dies.
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      if (errno != ESRCH) {
        attach_errno_ = errno;
      }
      continue;  // exited, a zombie leader, or refused
    }
    index_.emplace(tid, threads_.size());
    threads_.push_back({.tid = tid});
  }
  if (first_stop_ns_ == 0 && !threads_.empty()) {
    first_stop_ns_ = base::mono_ns();
  }
  for (size_t i = first_new; i < threads_.size(); ++i) {
    // PTRACE_INTERRUPT stops the thread without a signal, so the program cannot observe the stop as a signal.
    ::ptrace(PTRACE_INTERRUPT, threads_[i].tid, nullptr, nullptr);
  }
  return threads_.size() - first_new;
}

void TracedProcess::look_at(TracedThread& thread, int wait_options) {
  int status = 0;
  // __WALL: threads are "clone children", for which waitpid() does not wait otherwise.
  const pid_t got = ::waitpid(thread.tid, &status, __WALL | wait_options);
  if (got == 0 || (got < 0 && errno == EINTR)) {
    return;
  }
  if (got < 0 || !WIFSTOPPED(status)) {
    thread.state = StopState::gone;
    return;
  }
  thread.state = StopState::stopped;
  // With PTRACE_SEIZE a stop without an event is a signal-delivery stop, whose signal must not get lost.
  // Event stops come from PTRACE_INTERRUPT or are job-control stops, whose signal has already been consumed.
  if (status >> 16 == 0) {
    thread.pending_signal = WSTOPSIG(status);
  }
}

// Whether waiting for the thread can end.
bool TracedProcess::set_aside(TracedThread& thread) {
  const auto stat = base::ProcFs().thread_stat(pid_, thread.tid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') {
    thread.state = StopState::gone;
  } else if (stat->state == 'D') {
    thread.state = StopState::asleep;
  }
  return thread.state != StopState::seized;
}

// Waits for one thread after the other, blocked. This process has raised priority: polling would take the
// processor from threads that must run to reach their stop.
void TracedProcess::wait_for_stops() {
  const WaitAlarm alarm(kSleepCheck);
  base::MonoNs begun = base::mono_ns();
  for (size_t i = 0; i < threads_.size(); ++i) {
    TracedThread& t = threads_[i];
    if (t.state == StopState::seized) {
      look_at(t, WNOHANG);
    }
    while (t.state == StopState::seized) {
      const base::MonoNs now = base::mono_ns();
      if (now >= deadline_) {
        return;
      }
      if (now - begun >= kSleepCheck.count() && set_aside(t)) {
        // Threads in state D usually share one cause, for example a file system that does not answer. After
        // the first such thread, waiting for the others is pointless.
        std::for_each(threads_.begin() + static_cast<ptrdiff_t>(i), threads_.end(),
                      [this](TracedThread& other) {
                        if (other.state == StopState::seized) {
                          set_aside(other);
                        }
                      });
        break;
      }
      // A short sleep lets an idle processor stop many threads; a wake-up for each thread would take longer.
      if (alarm.armed() && now - begun >= kPollFor.count()) {
        look_at(t, 0);
      } else {
        ::nanosleep(&kPollPause, nullptr);
        look_at(t, WNOHANG);
      }
    }
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

std::string TracedProcess::vector_registers(const TracedThread& thread) const {
  std::string out;
  if (thread.state == StopState::stopped) {
    out.resize(kVectorBytes);
    iovec io{out.data(), out.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto set = reinterpret_cast<void*>(NT_PRFPREG);
    out.resize(::ptrace(PTRACE_GETREGSET, thread.tid, set, &io) == 0 ? io.iov_len : 0);
  }
  return out;
}

// Only a stopped thread can be detached. Threads that never stopped (state D) are detached by the kernel when
// this process ends.
void TracedProcess::resume() {
  for (TracedThread& t : threads_) {
    if (t.state == StopState::seized || t.state == StopState::asleep) {
      look_at(t, WNOHANG);  // it may have stopped at the last moment
    }
    if (t.state == StopState::stopped) {
      // A signal that the stop has taken would be lost without this.
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      auto* signal = reinterpret_cast<void*>(static_cast<intptr_t>(t.pending_signal));
      ::ptrace(PTRACE_DETACH, t.tid, nullptr, signal);
    }
  }
  threads_.clear();
  index_.clear();
}

}  // namespace xpurun::stackdump
