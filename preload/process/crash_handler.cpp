#include "preload/process/crash_handler.h"

#include "preload/core/clock.h"
#include "preload/process/supervisor_link.h"

#include <atomic>
#include <errno.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// A second crashing thread waits this much longer than the reporting thread, then dies without a report.
constexpr uint64_t kBystanderGraceNs = 1'000 * kNsPerMs;
constexpr size_t kStackBytes = 64 * 1024;

// Written by the constructor only.
RunEnv g_run;
uint32_t g_notice_flags = 0;
pid_t g_constructor_pid = 0;
alignas(64) char g_stack[kStackBytes];

// pid << 32 | tid of the reporting thread. The pid distinguishes copies: after fork(2) the memory is a copy,
// and after vfork(2) it is shared with the parent, whose report is another one.
std::atomic<uint64_t> g_reporter{0};

// Asks the kernel, because libc's own copies are stale after a raw clone(2).
pid_t current_pid() {
  return static_cast<pid_t>(syscall(SYS_getpid));
}

pid_t current_tid() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

bool sent_by_process(const siginfo_t& info) {
  return info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE;
}

bool is_synchronous(int signal, const siginfo_t& info) {
  return info.si_code > 0 && (signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL);
}

// An access beside the stack pointer faults only where the stack ends: at its guard page, or at its limit. A
// function may have moved the pointer past the guard page before it touches its frame.
bool is_stack_overflow(int signal, const siginfo_t& info, const void* context) {
  constexpr uint64_t kBeside = 64 * 1024;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto stack = static_cast<uint64_t>(registers.gregs[REG_RSP]);
#elif defined(__aarch64__)
  const auto stack = static_cast<uint64_t>(registers.sp);
#else
  const uint64_t stack = 0;
  static_cast<void>(registers);
#endif
  const uint64_t address = reinterpret_cast<uintptr_t>(info.si_addr);
  const uint64_t distance = address > stack ? address - stack : stack - address;
  return signal == SIGSEGV && is_synchronous(signal, info) && distance < kBeside;
}

// Deaths that need no report. The supervisor knows the signals that it sends itself. A forked worker (of a
// pool or a data loader) that its parent ends by SIGTERM is normal, and must end as fast as without xpurun.
bool is_expected(int signal, const siginfo_t& info, pid_t pid) {
  if (!sent_by_process(info)) {
    return false;
  }
  return info.si_pid == g_run.supervisor || (signal == SIGTERM && pid != g_constructor_pid &&
                                             info.si_pid == static_cast<pid_t>(syscall(SYS_getppid)));
}

enum class Turn : uint8_t { ours, somebody_elses, over };

// Decides which thread of the process reports.
Turn take_turn(pid_t pid, pid_t tid) {
  const uint64_t me = static_cast<uint64_t>(static_cast<uint32_t>(pid)) << 32 | static_cast<uint32_t>(tid);
  uint64_t holder = g_reporter.load();
  do {
    if (holder == me) {
      return Turn::over;
    }
    if (holder >> 32 == me >> 32) {
      return Turn::somebody_elses;
    }
  } while (!g_reporter.compare_exchange_weak(holder, me));
  return Turn::ours;
}

void report(int signal, const siginfo_t& info, const void* context, uint64_t deadline_ns) {
  wire::Notice notice = make_notice(wire::NoticeKind::crash);
  notice.signal = signal;
  notice.flags |= is_stack_overflow(signal, info, context) ? uint32_t{wire::kNoticeStackOverflow} : 0;
  notice.code = info.si_code;
  notice.sender_pid = sent_by_process(info) ? info.si_pid : 0;
  notice.address = is_synchronous(signal, info) ? reinterpret_cast<uintptr_t>(info.si_addr) : 0;
  notice.ucontext = reinterpret_cast<uintptr_t>(context);
  send_and_wait(g_run.socket, notice, deadline_ns);
}

// The signal is blocked while its handler runs. Queued again to this thread under the default disposition, it
// is delivered when the handler returns: with the interrupted registers, hence the same core file, and with
// the first siginfo. Returning to the faulting instruction would usually fault again, but not always: another
// thread may have mapped the page in the meantime.
void arrange_death(int signal, siginfo_t* info, void* context) {
  // The kernel's struct sigaction: handler, flags, restorer, mask. The C library's has another layout.
  const uint64_t default_action[4] = {};
  syscall(SYS_rt_sigaction, signal, default_action, nullptr, sizeof(uint64_t));
  const pid_t pid = current_pid();
  const pid_t tid = current_tid();
  if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, info) != 0 && !is_synchronous(signal, *info)) {
    syscall(SYS_tgkill, pid, tid, signal);
  }
  // sigsuspend(2) and ppoll(2) let a signal through that is blocked again after the handler returns; the
  // queued signal must not be blocked.
  sigdelset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
}

}  // namespace

wire::Notice make_notice(wire::NoticeKind kind) {
  wire::Notice notice{};
  notice.magic = wire::kNoticeMagic;
  notice.version = wire::kNoticeVersion;
  notice.kind = static_cast<uint16_t>(kind);
  notice.flags = g_notice_flags;
  notice.pid = current_pid();
  notice.tid = current_tid();
  notice.mono_ns = now_ns();
  return notice;
}

void prepare_crash_handler(const RunEnv& run, ProcessKind kind) {
  g_run = run;
  g_notice_flags = kind == ProcessKind::python ? uint32_t{wire::kNoticePython} : 0;
  g_constructor_pid = current_pid();
}

void provide_alternate_stack() {
  stack_t present{};
  if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) {
    return;
  }
  stack_t ours{};
  ours.ss_sp = g_stack;
  ours.ss_size = sizeof(g_stack);
  sigaltstack(&ours, nullptr);
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const pid_t pid = current_pid();
  if (!is_expected(signal, *info, pid)) {
    const uint64_t deadline_ns = now_ns() + g_run.crash_wait_ms * kNsPerMs;
    switch (take_turn(pid, current_tid())) {
      case Turn::ours:
        report(signal, *info, context, deadline_ns);
        break;
      case Turn::somebody_elses:
        sleep_until(deadline_ns + kBystanderGraceNs);
        break;
      case Turn::over:
        break;
    }
  }
  arrange_death(signal, info, context);
  errno = saved_errno;
}

}  // namespace xpurun::preload
