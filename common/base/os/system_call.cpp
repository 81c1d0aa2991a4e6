#include "common/base/os/system_call.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <sys/syscall.h>

namespace xpurun::base {

namespace {

enum class First { other, descriptor };

struct Known {
  int64_t number;
  std::string_view name;
  CallKind kind = CallKind::other;
  First first = First::other;
};

constexpr Known kKnown[] = {
    {SYS_accept, "accept", CallKind::accept, First::descriptor},
    {SYS_accept4, "accept4", CallKind::accept, First::descriptor},
    {SYS_clock_nanosleep, "clock_nanosleep", CallKind::sleep},
    {SYS_clone, "clone"},
    {SYS_close, "close", CallKind::other, First::descriptor},
    {SYS_connect, "connect", CallKind::other, First::descriptor},
    {SYS_epoll_pwait, "epoll_pwait", CallKind::events},
    {SYS_epoll_wait, "epoll_wait", CallKind::events},
    {SYS_exit_group, "exit_group"},
    {SYS_fcntl, "fcntl"},
    {SYS_fdatasync, "fdatasync", CallKind::other, First::descriptor},
    {SYS_flock, "flock", CallKind::other, First::descriptor},
    {SYS_fsync, "fsync", CallKind::other, First::descriptor},
    {SYS_fstat, "fstat", CallKind::other, First::descriptor},
    {SYS_ftruncate, "ftruncate", CallKind::other, First::descriptor},
    {SYS_futex, "futex", CallKind::lock},
    {SYS_getdents64, "getdents64", CallKind::other, First::descriptor},
    {SYS_io_getevents, "io_getevents"},
    {SYS_io_uring_enter, "io_uring_enter"},
    {SYS_ioctl, "ioctl", CallKind::other, First::descriptor},
    {SYS_madvise, "madvise"},
    {SYS_mmap, "mmap"},
    {SYS_msync, "msync"},
    {SYS_munmap, "munmap"},
    {SYS_nanosleep, "nanosleep", CallKind::sleep},
    {SYS_newfstatat, "newfstatat"},
    {SYS_openat, "openat"},
    {SYS_pause, "pause", CallKind::signal},
    {SYS_poll, "poll", CallKind::ready},
    {SYS_ppoll, "ppoll", CallKind::ready},
    {SYS_pread64, "pread64", CallKind::other, First::descriptor},
    {SYS_preadv, "preadv", CallKind::other, First::descriptor},
    {SYS_pselect6, "pselect6", CallKind::ready},
    {SYS_pwrite64, "pwrite64", CallKind::other, First::descriptor},
    {SYS_pwritev, "pwritev", CallKind::other, First::descriptor},
    {SYS_read, "read", CallKind::receive, First::descriptor},
    {SYS_readv, "readv", CallKind::receive, First::descriptor},
    {SYS_recvfrom, "recvfrom", CallKind::receive, First::descriptor},
    {SYS_recvmsg, "recvmsg", CallKind::receive, First::descriptor},
    {SYS_restart_syscall, "restart_syscall", CallKind::restarted},
    {SYS_rt_sigsuspend, "rt_sigsuspend", CallKind::signal},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait", CallKind::signal},
    {SYS_sched_yield, "sched_yield"},
    {SYS_select, "select", CallKind::ready},
    {SYS_semop, "semop", CallKind::lock},
    {SYS_semtimedop, "semtimedop", CallKind::lock},
    {SYS_sendmsg, "sendmsg", CallKind::send, First::descriptor},
    {SYS_sendto, "sendto", CallKind::send, First::descriptor},
    {SYS_statx, "statx"},
    {SYS_vfork, "vfork"},
    {SYS_wait4, "wait4", CallKind::child},
    {SYS_waitid, "waitid", CallKind::child},
    {SYS_write, "write", CallKind::send, First::descriptor},
    {SYS_writev, "writev", CallKind::send, First::descriptor},
};

const Known* known(int64_t number) {
  const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [&](const Known& call) { return call.number == number; });
  return found == std::end(kKnown) ? nullptr : found;
}

// poll() without descriptors, select() without a set.
bool of_nothing(const SystemCall& call) {
  const auto& a = call.arguments;
  const bool poll = call.number == SYS_poll || call.number == SYS_ppoll;
  return poll ? a[1] == 0 : a[0] == 0 || (a[1] == 0 && a[2] == 0 && a[3] == 0);
}

}  // namespace

SystemCall parse_system_call(std::string_view text) {
  SystemCall out;
  const auto words = split(trim(text), ' ');
  if (words.size() <= out.arguments.size()) {
    return out;
  }
  out.number = parse_int(words.front()).value_or(-1);
  for (size_t i = 0; i < out.arguments.size(); ++i) {
    const std::string_view word = words[i + 1];
    out.arguments[i] = parse_hex(word.starts_with("0x") ? word.substr(2) : word).value_or(0);
  }
  return out;
}

CallKind kind_of(const SystemCall& call) {
  if (call.number < 0) {
    return CallKind::none;
  }
  const Known* found = known(call.number);
  const CallKind kind = found == nullptr ? CallKind::other : found->kind;
  return kind == CallKind::ready && of_nothing(call) ? CallKind::sleep : kind;
}

CallKind kind_of_name(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [&](const Known& call) { return call.name == name; });
  return found == std::end(kKnown) ? CallKind::other : found->kind;
}

bool transfers(CallKind kind) {
  return kind == CallKind::receive || kind == CallKind::send;
}

std::string name_of(const SystemCall& call) {
  if (call.number < 0) {
    return {};
  }
  const Known* found = known(call.number);
  return found == nullptr ? fmt::format("#{}", call.number) : std::string(found->name);
}

int descriptor_of(const SystemCall& call) {
  const Known* found = known(call.number);
  const bool has = found != nullptr && found->first == First::descriptor && call.arguments[0] <= INT_MAX;
  return has ? static_cast<int>(call.arguments[0]) : -1;
}

}  // namespace xpurun::base
