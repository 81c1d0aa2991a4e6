#include "preload/crash_handler.h"

#include "preload/supervisor_link.h"

#include <atomic>
#include <errno.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
// How much longer than the reporting thread a second crashing thread stays before it dies by itself.
constexpr uint64_t kBystanderGraceNs = 1'000 * kNsPerMs;
constexpr size_t kStackBytes = 64 * 1024;

// Written by the constructor only.
RunEnv g_run;
uint32_t g_notice_flags = 0;
pid_t g_constructor_pid = 0;
alignas(64) char g_stack[kStackBytes];

// pid << 32 | tid of the thread that reports. The pid is in it because the memory may be a copy made by fork,
// or shared with a parent in vfork, whose report is not ours.
std::atomic<uint64_t> g_reporter{0};

// Straight from the kernel: after fork the library's own notion may be stale.
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

// The supervisor knows what it sends. A forked helper (a pool's or data loader's worker) that its parent asks
// to end is the parent's everyday business, and must end as quickly as it is used to.
bool is_expected(int signal, const siginfo_t& info, pid_t pid) {
  if (!sent_by_process(info)) {
    return false;
  }
  return info.si_pid == g_run.supervisor || (signal == SIGTERM && pid != g_constructor_pid &&
                                             info.si_pid == static_cast<pid_t>(syscall(SYS_getppid)));
}

enum class Turn : uint8_t { ours, somebody_elses, over };

// One thread of a process reports.
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
  notice.code = info.si_code;
  notice.sender_pid = sent_by_process(info) ? info.si_pid : 0;
  notice.address = is_synchronous(signal, info) ? reinterpret_cast<uintptr_t>(info.si_addr) : 0;
  notice.ucontext = reinterpret_cast<uintptr_t>(context);
  send_and_wait(g_run.socket, notice, deadline_ns);
}

// The signal is blocked while its handler runs. Queued again to this thread under the default disposition, it
// strikes when the handler returns: with the interrupted registers, hence the same core file, and with the
// siginfo of the first time. A faulting instruction would fault again as well, but not surely: another thread
// may have mapped the page meanwhile.
void arrange_death(int signal, siginfo_t* info, void* context) {
  const uint64_t default_action[4] = {};  // the kernel's struct sigaction: handler, flags, restorer, mask
  syscall(SYS_rt_sigaction, signal, default_action, nullptr, sizeof(uint64_t));
  const pid_t pid = current_pid();
  const pid_t tid = current_tid();
  if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, info) != 0 && !is_synchronous(signal, *info)) {
    syscall(SYS_tgkill, pid, tid, signal);
  }
  // Blocked outside of the handler too where sigsuspend(2) or ppoll(2) let it through.
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
  notice.mono_ns = monotonic_ns();
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
    const uint64_t deadline_ns = monotonic_ns() + g_run.crash_wait_ms * kNsPerMs;
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
