#include "stackdump/resolve/wait_target.h"

#include "common/base/os/io.h"
#include "common/base/os/open_files.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "common/model/stacks/file_system.h"
#include "common/model/stacks/frozen.h"
#include "stackdump/cpython/waits/shared_locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kLongestPath = 4096;
constexpr size_t kLargestTable = size_t{4} << 20;  // bytes of a file below /proc

// "0100007F:1F90" of /proc/net/tcp: the words of the address are in the byte order of the host.
std::string peer_words(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) {
    return {};
  }
  const auto port = base::parse_hex(text.substr(colon + 1));
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i < colon / 8; ++i) {
    words[i] = static_cast<uint32_t>(base::parse_hex(text.substr(i * 8, 8)).value_or(0));
  }
  if (!port || *port == 0) {
    return {};  // it listens
  }
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (colon == 8) {
    ::inet_ntop(AF_INET, words.data(), out.data(), out.size());
    return fmt::format("{}:{}", out.data(), *port);
  }
  ::inet_ntop(AF_INET6, words.data(), out.data(), out.size());
  const std::string address = out.data();
  constexpr std::string_view kMapped = "::ffff:";
  return address.starts_with(kMapped) ? fmt::format("{}:{}", address.substr(kMapped.size()), *port)
                                      : fmt::format("[{}]:{}", address, *port);
}

std::string table(const base::ProcFs& proc, base::Pid pid, std::string_view name) {
  return base::read_file(proc.path(pid, fmt::format("net/{}", name)), kLargestTable).value_or("");
}

// "socket:[4711]" -> its peer
std::string socket_target(const base::ProcFs& proc, base::Pid pid, std::string_view file) {
  const std::string_view inode = file.substr(0, file.size() - 1).substr(std::strlen("socket:["));
  for (const char* name : {"tcp", "tcp6"}) {
    if (std::string peer = tcp_peer(table(proc, pid, name), inode); !peer.empty()) {
      return peer;
    }
  }
  return {};
}

// The head of pthread_mutex_t of glibc.
struct Mutex {
  int32_t word = 0;  // 0 free, 1 locked, 2 locked with waiters
  uint32_t count = 0;
  int32_t owner = 0;
  uint32_t users = 0;
  int32_t kind = 0;
};

// Whether the futex is a mutex that somebody holds. Other futexes have other words at these places; the
// caller's stack tells a mutex for certain.
std::optional<base::Tid> mutex_owner(RemoteMemory& memory, Addr futex) {
  constexpr uint32_t kMostUsers = 1 << 16;
  constexpr int32_t kMostKinds = 0x400;
  const auto mutex = memory.value<Mutex>(futex);
  const bool held = mutex && (mutex->word == 2 || mutex->word == 1) && mutex->owner > 0 && mutex->users > 0 &&
                    mutex->users < kMostUsers && mutex->kind >= 0 && mutex->kind < kMostKinds;
  return held ? std::optional(mutex->owner) : std::nullopt;
}

// The writer of a lock of glibc for readers and writers, whose readers are not known. A thread waits for one
// of two words, at bytes 8 and 12; the writer's number is at byte 24.
std::optional<base::Tid> rwlock_writer(RemoteMemory& memory, Addr futex) {
  constexpr std::array<Addr, 2> kToWriter = {16, 12};
  constexpr uint32_t kMostUsers = 1 << 20;
  for (const Addr distance : kToWriter) {
    const auto lock = memory.value<std::array<uint32_t, 6>>(futex + distance - 24);
    const auto writer = memory.value<int32_t>(futex + distance);
    if (lock && writer && *writer > 0 && (*lock)[0] < kMostUsers && (*lock)[1] < kMostUsers) {
      return *writer;
    }
  }
  return std::nullopt;
}

model::LockHolder futex_lock(RemoteMemory& memory, const ProcMaps& maps, const base::SystemCall& call) {
  const auto command = call.arguments[1] & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    return {};
  }
  if (std::string path = shared_semaphore(maps, call.arguments[0]); !path.empty()) {
    return {.kind = "semaphore", .path = std::move(path), .pids = {}};
  }
  if (const auto owner = mutex_owner(memory, call.arguments[0])) {
    return {.kind = "mutex", .path = {}, .pids = {}, .tid = *owner};
  }
  const auto writer = rwlock_writer(memory, call.arguments[0]);
  return writer ? model::LockHolder{.kind = "rwlock", .path = {}, .pids = {}, .tid = *writer}
                : model::LockHolder();
}

bool waits_for_file_lock(const base::SystemCall& call) {
  return call.number == SYS_flock ||
         (call.number == SYS_fcntl && (call.arguments[1] == F_SETLKW || call.arguments[1] == F_OFD_SETLKW));
}

}  // namespace

std::string address_words(const std::string& bytes) {
  uint16_t family = 0;
  if (bytes.size() < sizeof family) {
    return {};
  }
  std::memcpy(&family, bytes.data(), sizeof family);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family == AF_INET && bytes.size() >= sizeof(sockaddr_in)) {
    sockaddr_in in{};
    std::memcpy(&in, bytes.data(), sizeof in);
    ::inet_ntop(AF_INET, &in.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(in.sin_port));
  }
  if (family == AF_INET6 && bytes.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in{};
    std::memcpy(&in, bytes.data(), sizeof in);
    ::inet_ntop(AF_INET6, &in.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(in.sin6_port));
  }
  if (family == AF_UNIX && bytes.size() > sizeof family) {
    const std::string path = bytes.substr(sizeof family);
    return path.front() == '\0' ? "@" + path.substr(1) : path.substr(0, path.find('\0'));
  }
  return {};
}

std::string tcp_peer(std::string_view table, std::string_view inode) {
  for (const std::string_view line : base::split(table, '\n')) {
    std::vector<std::string_view> words;
    for (const std::string_view word : base::split(line, ' ')) {
      if (!word.empty()) {
        words.push_back(word);
      }
    }
    constexpr size_t kRemote = 2;
    constexpr size_t kInode = 9;
    if (words.size() > kInode && words[kInode] == inode) {
      return peer_words(words[kRemote]);
    }
  }
  return {};
}

namespace {

// A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF"; a waiter has "->" after the
// number.
struct LockLine {
  bool waits = false;
  std::string_view kind;
  base::Pid pid = 0;
  std::string_view file;
};

std::vector<LockLine> lock_lines(std::string_view locks) {
  std::vector<LockLine> out;
  for (const std::string_view text : base::split(locks, '\n')) {
    std::vector<std::string_view> words;
    for (const std::string_view word : base::split(text, ' ')) {
      if (!word.empty()) {
        words.push_back(word);
      }
    }
    const size_t shift = words.size() > 1 && words[1] == "->" ? 1 : 0;
    if (words.size() >= 6 + shift) {
      out.push_back({.waits = shift == 1,
                     .kind = words[1 + shift],
                     .pid = static_cast<base::Pid>(base::parse_int(words[4 + shift]).value_or(0)),
                     .file = words[5 + shift]});
    }
  }
  return out;
}

void add_holder(model::LockHolder& out, const LockLine& held) {
  out.kind = held.kind == "FLOCK" ? "flock" : "fcntl";
  out.pids.push_back(held.pid);
}

}  // namespace

model::LockHolder lock_holders(std::string_view locks, base::Pid waiter) {
  const std::vector<LockLine> lines = lock_lines(locks);
  const auto wait = std::find_if(lines.begin(), lines.end(),
                                 [&](const LockLine& line) { return line.waits && line.pid == waiter; });
  model::LockHolder out;
  for (const LockLine& held : lines) {
    if (wait != lines.end() && !held.waits && held.file == wait->file && held.kind == wait->kind &&
        held.pid > 0) {
      add_holder(out, held);
    }
  }
  return out;
}

model::LockHolder lock_holders_of_inode(std::string_view locks, std::string_view inode) {
  model::LockHolder out;
  for (const LockLine& held : lock_lines(locks)) {
    if (!held.waits && held.pid > 0 && !inode.empty() &&
        held.file.substr(std::min(held.file.rfind(':') + 1, held.file.size())) == inode) {
      add_holder(out, held);
    }
  }
  return out;
}

bool asks_for_lock(const base::SystemCall& call) {
  return (call.number == SYS_flock && (call.arguments[1] & LOCK_NB) != 0) ||
         (call.number == SYS_fcntl && (call.arguments[1] == F_SETLK || call.arguments[1] == F_OFD_SETLK));
}

model::LockHolder lock_on_file(base::Pid pid, int fd) {
  const base::ProcFs proc;
  // "ino:\t131", since Linux 5.14: a stat() of the file could stall.
  const std::string about = proc.text(pid, fmt::format("fdinfo/{}", fd));
  for (const std::string_view line : base::split(about, '\n')) {
    constexpr std::string_view kInode = "ino:";
    if (line.starts_with(kInode)) {
      model::LockHolder out = lock_holders_of_inode(
          base::read_file("/proc/locks", kLargestTable).value_or(""), base::trim(line.substr(kInode.size())));
      out.path = proc.link(pid, fmt::format("fd/{}", fd));
      return out;
    }
  }
  return {};
}

namespace {

void name_target(const base::ProcFs& proc, base::Pid pid, RemoteMemory& memory, const ProcMaps& maps,
                 const base::SystemCall& call, KernelView& view) {
  const auto path_at = [&](size_t argument) {
    return memory.c_string(call.arguments[argument], kLongestPath).value_or("");
  };
  if (waits_for_file_lock(call)) {
    view.syscall_file = proc.link(pid, fmt::format("fd/{}", call.arguments[0]));
    view.lock = lock_holders(base::read_file("/proc/locks", kLargestTable).value_or(""), pid);
    view.lock.path = view.syscall_file;
    view.target = view.syscall_file;
    return;
  }
  switch (call.number) {
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_statx:
      view.target = path_at(1);
      return;
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
      view.target = path_at(0);
      return;
#endif
    case SYS_connect:
      view.target = address_words(
          memory.bytes(call.arguments[1], std::min<uint64_t>(call.arguments[2], sizeof(sockaddr_un)))
              .value_or(""));
      return;
    case SYS_futex:
      view.lock = futex_lock(memory, maps, call);
      return;
    default:
      break;
  }
  if (view.syscall_file.starts_with("socket:[")) {
    view.target = socket_target(proc, pid, view.syscall_file);
  } else if (view.syscall_file.starts_with('/')) {
    view.target = view.syscall_file;
  }
}

// The path of the target for the process: a relative path begins at a directory that the call names, or at
// the working directory. Empty if the target is no path.
std::string absolute_target(const base::ProcFs& proc, base::Pid pid, const base::SystemCall& call,
                            const KernelView& view) {
  if (view.target.starts_with('/') || view.target.empty() || call.number == SYS_connect ||
      view.syscall_file.starts_with("socket:[")) {
    return call.number == SYS_connect ? std::string() : view.target;
  }
  const bool at = call.number == SYS_openat || call.number == SYS_newfstatat || call.number == SYS_statx;
  const int directory = at ? static_cast<int>(call.arguments[0]) : AT_FDCWD;
  const std::string from = directory == AT_FDCWD ? std::string("cwd") : fmt::format("fd/{}", directory);
  return fmt::format("{}/{}", proc.link(pid, from), view.target);
}

}  // namespace

std::string frozen_group(std::string_view cgroup) {
  std::string out;
  for (const std::string_view line : base::split(cgroup, '\n')) {
    // "4:freezer:/job" of the first version; "0::/job"
    const auto parts = base::split(line, ':');
    const bool freezer = parts.size() >= 3 && parts[1].find("freezer") != std::string_view::npos;
    if (freezer || (parts.size() >= 3 && parts[1].empty() && out.size() < 2)) {
      out = line.substr(parts[0].size() + parts[1].size() + 2);
    }
    if (freezer && out.size() > 1) {
      break;
    }
  }
  return out;
}

bool is_held_by_freezer(std::string_view cgroup, const std::string& freezer) {
  for (const std::string_view line : base::split(cgroup, '\n')) {
    const auto parts = base::split(line, ':');
    if (parts.size() >= 3 && parts[1].find("freezer") != std::string_view::npos) {
      const std::string_view group = line.substr(parts[0].size() + parts[1].size() + 2);
      const auto state = base::read_file_start(fmt::format("{}{}/freezer.state", freezer, group), 64);
      return state && base::trim(*state) == "FROZEN";
    }
  }
  return false;
}

void name_wait(base::Pid pid, RemoteMemory& memory, const ProcMaps& maps, KernelView& view,
               const base::ProcFs& proc) {
  // Since Linux 6.1, a thread that sleeps is frozen where it is, in state D.
  const auto stat = proc.stat(pid);
  if (stat && stat->state == 'D' && is_held_by_freezer(proc.text(pid, "cgroup"))) {
    view.wchan = model::kRefrigerator;
  }
  if (model::is_frozen(view.wchan)) {
    view.target = frozen_group(proc.text(pid, "cgroup"));
    return;
  }
  const base::SystemCall call = base::parse_system_call(view.syscall_text);
  if (call.number < 0) {
    return;
  }
  name_target(proc, pid, memory, maps, call, view);
  if (const std::string path = absolute_target(proc, pid, call, view); path.starts_with('/')) {
    model::FileSystem& fs = view.file_system;
    fs = model::file_system_of(proc.text(pid, "mountinfo"), path);
    if (fs.type.starts_with("nfs")) {
      fs.unanswered = model::unanswered_requests(proc.text(pid, "mountstats"), fs.mount);
    }
  }
}

void name_peers(KernelView& view, Wanted wanted, const base::ProcFs& proc) {
  if (view.state != 'S') {
    return;
  }
  const base::CallKind kind = base::kind_of(base::parse_system_call(view.syscall_text));
  if (kind == base::CallKind::send) {
    view.peers = base::other_end(proc, view.syscall_file, base::OpenFor::reading);
  } else if (kind == base::CallKind::receive && wanted == Wanted::readers_and_writers) {
    view.peers = base::other_end(proc, view.syscall_file, base::OpenFor::writing);
  }
}

}  // namespace xpurun::stackdump
