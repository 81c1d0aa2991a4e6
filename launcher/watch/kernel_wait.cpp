#include "launcher/watch/kernel_wait.h"

#include "common/base/os/io.h"
#include "common/base/os/open_files.h"
#include "common/base/os/system_call.h"
#include "common/base/strings.h"
#include "stackdump/memory/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <poll.h>
#include <span>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostPolled = 64;      // descriptors in one poll() call
constexpr int kMostSelected = 256;      // highest descriptor in one select() call
constexpr size_t kMostTable = 1 << 20;  // bytes
// The columns of net/tcp and net/unix: 3 is the state of TCP, or the flags of a local socket.
constexpr size_t kLocalAddress = 1;
constexpr size_t kState = 3;
constexpr size_t kLocalInode = 6;
constexpr size_t kInode = 9;
constexpr std::string_view kListens = "0A";

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

base::Pid awaited_child(const base::SystemCall& call) {
  if (call.number == SYS_wait4) {
    return std::max(0, static_cast<int>(call.arguments[0]));
  }
  return call.arguments[0] == P_PID ? static_cast<base::Pid>(call.arguments[1]) : 0;
}

// Of poll() and select().
KernelWait wait_for_ready(const base::ProcFs& proc, base::Pid pid, const base::SystemCall& call) {
  const auto& a = call.arguments;
  const bool poll = call.number == SYS_poll || call.number == SYS_ppoll;
  return wait_for(proc, pid, poll ? polled(pid, a[0], a[1]) : selected(pid, a[1], a[0]));
}

KernelWait wait_to_write(const base::ProcFs& proc, base::Pid pid, int fd) {
  KernelWait out{.kind = KernelWaitKind::other};
  if (std::string target = target_of(proc, pid, std::to_string(fd)); target.starts_with("pipe:[")) {
    out.kind = KernelWaitKind::output;
    out.pipes.insert(std::move(target));
  }
  return out;
}

KernelWait wait_for_events(const base::ProcFs& proc, base::Pid pid, const base::SystemCall& call) {
  const std::vector<int> fds = waited_for_by(proc, pid, call.arguments[0]);
  const uint64_t limit = call.arguments[3];  // milliseconds, or a pointer
  const bool endless = call.number == SYS_epoll_pwait2 ? limit == 0 : static_cast<int32_t>(limit) < 0;
  KernelWait out{.kind = KernelWaitKind::events, .sockets = wait_for(proc, pid, fds).sockets};
  const auto counts = std::count_if(fds.begin(), fds.end(), [&](int fd) {
    const std::string target = target_of(proc, pid, std::to_string(fd));
    return target == "anon_inode:[eventfd]" || target == "anon_inode:[timerfd]";
  });
  out.endless = endless;
  out.own = !fds.empty() && out.sockets.size() <= 1 &&
            static_cast<size_t>(counts) + out.sockets.size() == fds.size();
  return out;
}

KernelWait wait_of(const base::ProcFs& proc, base::Pid pid, const base::SystemCall& call) {
  const uint64_t first = call.arguments[0];
  switch (base::kind_of(call)) {
    case base::CallKind::none:
      return {};
    case base::CallKind::restarted:
      return {.kind = KernelWaitKind::restarted};
    case base::CallKind::child:
      return {.kind = KernelWaitKind::child, .child = awaited_child(call)};
    case base::CallKind::lock:
      return {.kind = KernelWaitKind::lock};
    case base::CallKind::accept:
      return {.kind = KernelWaitKind::accept};
    case base::CallKind::events:
      return wait_for_events(proc, pid, call);
    case base::CallKind::sleep:
      return {.kind = KernelWaitKind::sleep};
    case base::CallKind::signal:
      return {.kind = KernelWaitKind::signal};
    case base::CallKind::receive:
      return wait_for(proc, pid, {static_cast<int>(first)});
    case base::CallKind::ready:
      return wait_for_ready(proc, pid, call);
    case base::CallKind::send:
      return wait_to_write(proc, pid, static_cast<int>(first));
    case base::CallKind::other:
      break;
  }
  return {.kind = KernelWaitKind::other};
}

}  // namespace

KernelWait kernel_wait(const base::ProcFs& proc, base::Pid pid) {
  const base::SystemCall call = base::parse_system_call(proc.text(pid, "syscall"));
  KernelWait out = wait_of(proc, pid, call);
  out.transfers = base::transfers(base::kind_of(call));
  return out;
}

bool wakes_itself(const base::ProcFs& proc, base::Pid pid, const std::string& socket) {
  const std::string peer = base::peer_of_local_socket(socket);
  return !peer.empty() && base::has_open(proc, pid, {peer});
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
