#include "launcher/watch/kernel_wait.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "stackdump/memory/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <dirent.h>
#include <memory>
#include <poll.h>
#include <span>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostPolled = 64;        // descriptors in one poll() call
constexpr int kMostSelected = 256;        // highest descriptor in one select() call
constexpr size_t kMostDescriptors = 512;  // of one process, in has_open()
constexpr size_t kMostTable = 1 << 20;    // bytes
// The columns of net/tcp and net/unix: 3 is the state of TCP, or the flags of a local socket.
constexpr size_t kLocalAddress = 1;
constexpr size_t kState = 3;
constexpr size_t kLocalInode = 6;
constexpr size_t kInode = 9;
constexpr std::string_view kListens = "0A";

struct DirCloser {
  void operator()(DIR* d) const { ::closedir(d); }
};

std::string target_of(const base::ProcFs& proc, base::Pid pid, std::string_view fd) {
  return base::read_link(proc.path(pid, fmt::format("fd/{}", fd))).value_or("");
}

std::vector<int> polled(base::Pid pid, uint64_t address, uint64_t count) {
  std::vector<pollfd> entries(std::min<uint64_t>(count, kMostPolled));
  // The array is in the memory of the process. Only its first entries are read, because a server may poll
  // thousands.
  stackdump::LiveMemory memory(pid);
  std::vector<int> out;
  if (entries.empty() || !memory.read(address, std::as_writable_bytes(std::span(entries)))) {
    return out;
  }
  for (const pollfd& p : entries) {
    out.push_back(p.fd);
  }
  return out;
}

std::vector<int> selected(base::Pid pid, uint64_t address, uint64_t count) {
  std::vector<unsigned char> bits(std::min<uint64_t>(count, kMostSelected) / 8 + 1);
  stackdump::LiveMemory memory(pid);
  std::vector<int> out;
  if (address == 0 || !memory.read(address, std::as_writable_bytes(std::span(bits)))) {
    return out;
  }
  for (int fd = 0; fd < static_cast<int>(std::min<uint64_t>(count, kMostSelected)); ++fd) {
    if ((bits[static_cast<size_t>(fd) / 8] >> (fd % 8) & 1) != 0) {
      out.push_back(fd);
    }
  }
  return out;
}

std::vector<std::string_view> columns(std::string_view line) {
  std::vector<std::string_view> out = base::split(line, ' ');
  std::erase_if(out, [](std::string_view word) { return base::trim(word).empty(); });
  return out;
}

// The descriptors that an epoll descriptor waits for: lines "tfd: 7 events: ...".
std::vector<int> waited_for_by(const base::ProcFs& proc, base::Pid pid, uint64_t epoll) {
  std::vector<int> out;
  const std::string text = proc.text(pid, fmt::format("fdinfo/{}", epoll));
  for (const std::string_view line : base::split(text, '\n')) {
    const auto words = columns(line);
    if (words.size() > 1 && words.front() == "tfd:" && out.size() < kMostPolled) {
      out.push_back(static_cast<int>(base::parse_int(words[1]).value_or(-1)));
    }
  }
  return out;
}

// The wait for these descriptors. A descriptor other than a pipe may end the wait as well.
KernelWait wait_for(const base::ProcFs& proc, base::Pid pid, const std::vector<int>& fds) {
  KernelWait out{.kind = KernelWaitKind::other};
  for (const int fd : fds) {
    const std::string target = target_of(proc, pid, std::to_string(fd));
    if (target.starts_with("pipe:[")) {
      out.pipes.insert(target);
      out.kind = KernelWaitKind::pipes;
    } else if (target.starts_with("socket:[")) {
      out.sockets.insert(target);
    }
  }
  if (fds.size() == 1 && fds.front() == 0) {
    out.kind = KernelWaitKind::input;
  }
  return out;
}

base::Pid awaited_child(const SystemCall& call) {
  if (call.number == SYS_wait4) {
    return std::max(0, static_cast<int>(call.arguments[0]));
  }
  return call.arguments[0] == P_PID ? static_cast<base::Pid>(call.arguments[1]) : 0;
}

}  // namespace

SystemCall parse_system_call(std::string_view text) {
  SystemCall out;
  const auto words = base::split(base::trim(text), ' ');
  out.number = base::parse_int(words.front()).value_or(-1);
  for (size_t i = 0; i < std::size(out.arguments) && i + 1 < words.size(); ++i) {
    std::string_view hex = words[i + 1];
    hex.remove_prefix(hex.starts_with("0x") ? 2 : 0);
    std::from_chars(hex.data(), hex.data() + hex.size(), out.arguments[i], 16);
  }
  return out;
}

namespace {

KernelWait wait_of(const base::ProcFs& proc, base::Pid pid, const SystemCall& call) {
  const auto& a = call.arguments;
  switch (call.number) {
    case -1:
      return {};
    case SYS_restart_syscall:
      return {.kind = KernelWaitKind::restarted};
    case SYS_wait4:
    case SYS_waitid:
      return {.kind = KernelWaitKind::child, .child = awaited_child(call)};
    case SYS_futex:
    case SYS_semop:
    case SYS_semtimedop:
      return {.kind = KernelWaitKind::lock};
    case SYS_accept:
    case SYS_accept4:
      return {.kind = KernelWaitKind::accept};
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return {.kind = KernelWaitKind::events,
              .sockets = wait_for(proc, pid, waited_for_by(proc, pid, a[0])).sockets};
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return {.kind = KernelWaitKind::sleep};
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
      return {.kind = KernelWaitKind::signal};
    case SYS_read:
    case SYS_readv:
      return wait_for(proc, pid, {static_cast<int>(a[0])});
    case SYS_poll:
    case SYS_ppoll:
      // poll() without descriptors is a sleep.
      return a[1] == 0 ? KernelWait{.kind = KernelWaitKind::sleep}
                       : wait_for(proc, pid, polled(pid, a[0], a[1]));
    case SYS_select:
    case SYS_pselect6: {
      // Python's time.sleep() before 3.11 is a select() of nothing.
      const bool nothing = a[0] == 0 || (a[1] == 0 && a[2] == 0 && a[3] == 0);
      return nothing ? KernelWait{.kind = KernelWaitKind::sleep}
                     : wait_for(proc, pid, selected(pid, a[1], a[0]));
    }
    default:
      return {.kind = KernelWaitKind::other};
  }
}

bool transfers(const SystemCall& call) {
  switch (call.number) {
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
      return true;
    default:
      return false;
  }
}

}  // namespace

KernelWait kernel_wait(const base::ProcFs& proc, base::Pid pid) {
  // /proc/PID/syscall is "running" for a thread on a CPU, "-1 SP PC" outside of system calls, and else the
  // number and six arguments in hexadecimal.
  const SystemCall call = parse_system_call(proc.text(pid, "syscall"));
  KernelWait out = wait_of(proc, pid, call);
  out.transfers = transfers(call);
  return out;
}

bool listens_in(std::string_view table, const std::set<std::string>& sockets) {
  const auto lines = base::split(table, '\n');
  return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) {
    const auto words = columns(line);
    const bool tcp = words.size() > kInode && words[kState] == kListens;
    const bool local = words.size() > kLocalInode && words[kState] == "00010000";
    return (tcp || local) && sockets.contains(fmt::format("socket:[{}]", words[tcp ? kInode : kLocalInode]));
  });
}

bool listens(const base::ProcFs& proc, base::Pid pid, const std::set<std::string>& sockets) {
  constexpr std::string_view kTables[] = {"net/tcp", "net/tcp6", "net/unix"};
  return !sockets.empty() && std::any_of(std::begin(kTables), std::end(kTables), [&](std::string_view table) {
    return listens_in(base::read_file(proc.path(pid, table), kMostTable).value_or(""), sockets);
  });
}

bool has_open(const base::ProcFs& proc, base::Pid pid, const std::set<std::string>& files) {
  const std::unique_ptr<DIR, DirCloser> dir(::opendir(proc.path(pid, "fd").c_str()));
  size_t looked_at = 0;
  // A process may have a million descriptors, and each costs a readlink().
  while (dir != nullptr && looked_at++ < kMostDescriptors) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      break;
    }
    if (files.contains(target_of(proc, pid, entry->d_name))) {
      return true;
    }
  }
  return false;
}

std::set<std::string> listening_at(std::string_view table, int port) {
  const std::string end = fmt::format(":{:04X}", port);
  std::set<std::string> out;
  for (const std::string_view line : base::split(table, '\n')) {
    const auto words = columns(line);
    if (words.size() > kInode && words[kState] == kListens && words[kLocalAddress].ends_with(end)) {
      out.insert(fmt::format("socket:[{}]", words[kInode]));
    }
  }
  return out;
}

base::Pid listener_of(const base::ProcFs& proc, base::Pid pid, int port) {
  std::set<std::string> sockets;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    sockets.merge(listening_at(base::read_file(proc.path(pid, table), kMostTable).value_or(""), port));
  }
  const std::vector<base::Pid> all = sockets.empty() ? std::vector<base::Pid>() : proc.processes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](base::Pid other) { return has_open(proc, other, sockets); });
  return found == all.end() ? 0 : *found;
}

}  // namespace xpurun::launcher
