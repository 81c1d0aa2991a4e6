#include "stackdump/native/kernel_view.h"

#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

struct SyscallName {
  int64_t number;
  std::string_view name;
};

// System calls in which threads of a training job wait; all others are shown by number.
constexpr SyscallName kNames[] = {
    {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_clone, "clone"},
    {SYS_close, "close"},
    {SYS_connect, "connect"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_exit_group, "exit_group"},
    {SYS_fcntl, "fcntl"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fsync, "fsync"},
    {SYS_fstat, "fstat"},
    {SYS_ftruncate, "ftruncate"},
    {SYS_futex, "futex"},
    {SYS_getdents64, "getdents64"},
    {SYS_io_getevents, "io_getevents"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {SYS_ioctl, "ioctl"},
    {SYS_madvise, "madvise"},
    {SYS_mmap, "mmap"},
    {SYS_msync, "msync"},
    {SYS_munmap, "munmap"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_newfstatat, "newfstatat"},
    {SYS_openat, "openat"},
    {SYS_pause, "pause"},
    {SYS_poll, "poll"},
    {SYS_ppoll, "ppoll"},
    {SYS_pread64, "pread64"},
    {SYS_preadv, "preadv"},
    {SYS_pselect6, "pselect6"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_pwritev, "pwritev"},
    {SYS_read, "read"},
    {SYS_readv, "readv"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_restart_syscall, "restart_syscall"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_select, "select"},
    {SYS_semop, "semop"},
    {SYS_semtimedop, "semtimedop"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_sendto, "sendto"},
    {SYS_statx, "statx"},
    {SYS_vfork, "vfork"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
};

}  // namespace

std::string syscall_name(std::string_view text) {
  const auto words = base::split(base::trim(text), ' ');
  const auto number = base::parse_int(words.front());
  if (!number || *number < 0) {
    return {};
  }
  for (const SyscallName& s : kNames) {
    if (s.number == *number) {
      return std::string(s.name);
    }
  }
  return fmt::format("#{}", *number);
}

bool same_system_call(std::string_view before, std::string_view after) {
  // After a stop, the kernel continues an interrupted wait as restart_syscall: the number changes, although
  // the thread has not left its call. The arguments, stack pointer and pc stay.
  const size_t a = std::min(before.find(' '), before.size());
  const size_t b = std::min(after.find(' '), after.size());
  const auto restarts = [](std::string_view number) {
    return base::parse_int(number) == SYS_restart_syscall;
  };
  const bool same_number = before.substr(0, a) == after.substr(0, b) || restarts(before.substr(0, a)) ||
                           restarts(after.substr(0, b));
  return same_number && before.substr(a) == after.substr(b);
}

int syscall_descriptor(std::string_view text) {
  // All of these calls take the descriptor as their first argument.
  constexpr int64_t kWithDescriptor[] = {SYS_accept, SYS_accept4, SYS_close,    SYS_connect,   SYS_fdatasync,
                                         SYS_flock,  SYS_fstat,   SYS_fsync,    SYS_ftruncate, SYS_getdents64,
                                         SYS_ioctl,  SYS_pread64, SYS_preadv,   SYS_pwrite64,  SYS_pwritev,
                                         SYS_read,   SYS_readv,   SYS_recvfrom, SYS_recvmsg,   SYS_sendmsg,
                                         SYS_sendto, SYS_write,   SYS_writev};
  const auto words = base::split(base::trim(text), ' ');
  const auto number = base::parse_int(words.front());
  if (!number || words.size() < 2 || !words[1].starts_with("0x") ||
      std::find(std::begin(kWithDescriptor), std::end(kWithDescriptor), *number) ==
          std::end(kWithDescriptor)) {
    return -1;
  }
  const auto descriptor = base::parse_hex(words[1].substr(2));
  return descriptor && *descriptor <= INT_MAX ? static_cast<int>(*descriptor) : -1;
}

KernelView read_kernel_view(base::Pid pid, base::Tid tid) {
  const base::ProcFs proc;
  KernelView v;
  if (const auto stat = proc.thread_stat(pid, tid)) {
    v.comm = base::sanitize(stat->comm);
    v.state = stat->state;
    v.cpu_ms = (stat->utime_ticks + stat->stime_ticks) * 1000 / static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  }
  v.wchan = proc.text(pid, fmt::format("task/{}/wchan", tid));
  // "0": the thread runs, or this reader may not see kernel addresses.
  if (v.wchan == "0") {
    v.wchan.clear();
  }
  v.syscall_text = proc.text(pid, fmt::format("task/{}/syscall", tid));
  v.syscall = syscall_name(v.syscall_text);
  if (const int fd = syscall_descriptor(v.syscall_text); fd >= 0) {
    v.syscall_file = base::read_link(fmt::format("/proc/{}/fd/{}", pid, fd)).value_or("");
  }
  return v;
}

std::vector<std::string> parse_kernel_stack(std::string_view text) {
  std::vector<std::string> out;
  for (std::string_view line : base::split(text, '\n')) {
    const size_t bracket = line.find("] ");  // "[<0>] futex_wait_queue+0x60/0x90"
    if (bracket == std::string_view::npos) {
      continue;
    }
    const std::string_view frame = base::trim(line.substr(bracket + 2));
    out.emplace_back(frame.substr(0, frame.find('+')));
  }
  return out;
}

std::vector<std::string> kernel_stack(base::Pid pid, base::Tid tid) {
  return parse_kernel_stack(base::ProcFs().text(pid, fmt::format("task/{}/stack", tid)));
}

}  // namespace xpurun::stackdump
