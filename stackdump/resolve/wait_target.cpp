#include "stackdump/resolve/wait_target.h"

#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/shared_locks.h"
#include "common/model/stacks/file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kArguments = 6;
constexpr size_t kLongestPath = 4096;
constexpr size_t kLargestTable = size_t{4} << 20;  // bytes of a file below /proc

struct Call {
  int64_t number = -1;
  std::array<uint64_t, kArguments> args{};
};

// "202 0x7f... 0x189 0x0 0x0 0x0 0x0 0xsp 0xpc"
std::optional<Call> call_of(std::string_view text) {
  const auto words = base::split(base::trim(text), ' ');
  const auto number = base::parse_int(words.front());
  if (!number || words.size() <= kArguments) {
    return std::nullopt;
  }
  Call out{.number = *number};
  for (size_t i = 0; i < kArguments; ++i) {
    const std::string_view word = words[i + 1];
    out.args[i] = base::parse_hex(word.starts_with("0x") ? word.substr(2) : word).value_or(0);
  }
  return out;
}

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

std::string table(base::Pid pid, std::string_view name) {
  return base::read_file(fmt::format("/proc/{}/net/{}", pid, name), kLargestTable).value_or("");
}

// "socket:[4711]" -> its peer
std::string socket_target(base::Pid pid, std::string_view file) {
  const std::string_view inode = file.substr(0, file.size() - 1).substr(std::strlen("socket:["));
  for (const char* name : {"tcp", "tcp6"}) {
    if (std::string peer = tcp_peer(table(pid, name), inode); !peer.empty()) {
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

model::LockHolder futex_lock(RemoteMemory& memory, const ProcMaps& maps, const Call& call) {
  const auto command = call.args[1] & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
    return {};
  }
  if (std::string path = shared_semaphore(maps, call.args[0]); !path.empty()) {
    return {.kind = "semaphore", .path = std::move(path), .pids = {}};
  }
  if (const auto owner = mutex_owner(memory, call.args[0])) {
    return {.kind = "mutex", .path = {}, .pids = {}, .tid = *owner};
  }
  const auto writer = rwlock_writer(memory, call.args[0]);
  return writer ? model::LockHolder{.kind = "rwlock", .path = {}, .pids = {}, .tid = *writer}
                : model::LockHolder();
}

bool waits_for_file_lock(const Call& call) {
  return call.number == SYS_flock ||
         (call.number == SYS_fcntl && (call.args[1] == F_SETLKW || call.args[1] == F_OFD_SETLKW));
}

}  // namespace

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

model::LockHolder lock_holders(std::string_view locks, base::Pid waiter) {
  // "1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF"; a waiter has "->" after the number.
  struct Line {
    bool waits = false;
    std::string_view kind;
    base::Pid pid = 0;
    std::string_view file;
  };
  std::vector<Line> lines;
  for (const std::string_view text : base::split(locks, '\n')) {
    std::vector<std::string_view> words;
    for (const std::string_view word : base::split(text, ' ')) {
      if (!word.empty()) {
        words.push_back(word);
      }
    }
    const size_t shift = words.size() > 1 && words[1] == "->" ? 1 : 0;
    if (words.size() >= 6 + shift) {
      lines.push_back({.waits = shift == 1,
                       .kind = words[1 + shift],
                       .pid = static_cast<base::Pid>(base::parse_int(words[4 + shift]).value_or(0)),
                       .file = words[5 + shift]});
    }
  }
  model::LockHolder out;
  for (const Line& wait : lines) {
    if (!wait.waits || wait.pid != waiter) {
      continue;
    }
    for (const Line& held : lines) {
      if (!held.waits && held.file == wait.file && held.kind == wait.kind && held.pid > 0) {
        out.kind = wait.kind == "FLOCK" ? "flock" : "fcntl";
        out.pids.push_back(held.pid);
      }
    }
    break;
  }
  return out;
}

namespace {

void name_target(base::Pid pid, RemoteMemory& memory, const ProcMaps& maps, const Call& call,
                 KernelView& view) {
  const auto path_at = [&](size_t argument) {
    return memory.c_string(call.args[argument], kLongestPath).value_or("");
  };
  if (waits_for_file_lock(call)) {
    view.syscall_file = base::read_link(fmt::format("/proc/{}/fd/{}", pid, call.args[0])).value_or("");
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
          memory.bytes(call.args[1], std::min<uint64_t>(call.args[2], sizeof(sockaddr_un))).value_or(""));
      return;
    case SYS_futex:
      view.lock = futex_lock(memory, maps, call);
      return;
    default:
      break;
  }
  if (view.syscall_file.starts_with("socket:[")) {
    view.target = socket_target(pid, view.syscall_file);
  } else if (view.syscall_file.starts_with('/')) {
    view.target = view.syscall_file;
  }
}

// The path of the target for the process: a relative path begins at a directory that the call names, or at
// the working directory. Empty if the target is no path.
std::string absolute_target(base::Pid pid, const Call& call, const KernelView& view) {
  if (view.target.starts_with('/') || view.target.empty() || call.number == SYS_connect ||
      view.syscall_file.starts_with("socket:[")) {
    return call.number == SYS_connect ? std::string() : view.target;
  }
  const bool at = call.number == SYS_openat || call.number == SYS_newfstatat || call.number == SYS_statx;
  const int directory = at ? static_cast<int>(call.args[0]) : AT_FDCWD;
  const std::string from = directory == AT_FDCWD ? std::string("cwd") : fmt::format("fd/{}", directory);
  return fmt::format("{}/{}", base::ProcFs().link(pid, from), view.target);
}

}  // namespace

void name_wait(base::Pid pid, RemoteMemory& memory, const ProcMaps& maps, KernelView& view) {
  const auto call = call_of(view.syscall_text);
  if (!call) {
    return;
  }
  name_target(pid, memory, maps, *call, view);
  if (const std::string path = absolute_target(pid, *call, view); path.starts_with('/')) {
    const base::ProcFs proc;
    model::FileSystem& fs = view.file_system;
    fs = model::file_system_of(proc.text(pid, "mountinfo"), path);
    if (fs.type.starts_with("nfs")) {
      fs.unanswered = model::unanswered_requests(proc.text(pid, "mountstats"), fs.mount);
    }
  }
}

}  // namespace xpurun::stackdump
