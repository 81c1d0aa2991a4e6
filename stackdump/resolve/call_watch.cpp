#include "stackdump/resolve/call_watch.h"

#include "common/base/clock.h"
#include "common/base/os/open_files.h"
#include "common/base/os/procfs.h"
#include "common/base/os/system_call.h"
#include "common/model/stacks/file_system.h"
#include "stackdump/resolve/wait_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <elf.h>
#include <optional>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <thread>
#include <utility>

namespace xpurun::stackdump {

namespace {

constexpr size_t kLongestPolled = 4096;
constexpr size_t kMostFiles = 8;
constexpr size_t kMostCalls = 2000;                    // of one turn of the loop
constexpr int64_t kLastStopNs = 200'000'000;           // a thread needs a CPU to reach its stop
constexpr timespec kBetweenLooks{.tv_nsec = 200'000};  // between two looks at the thread
constexpr int kCallStop = SIGTRAP | 0x80;              // PTRACE_O_TRACESYSGOOD
constexpr base::MonoNs kRunningWatchNs = 100'000'000;  // of a thread that does not sleep
constexpr int kOftenInVain =
    3;  // a thread that does not sleep asks in a loop if it asks as often as this in vain

// An interrupted sleep goes on as another call.
bool is_sleep(const base::SystemCall& call) {
  const base::CallKind kind = base::kind_of(call);
  return kind == base::CallKind::sleep || kind == base::CallKind::restarted;
}

// Index of the argument that is a path; -1: none.
int path_argument(int64_t number) {
  switch (number) {
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_openat:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_mkdirat:
    case SYS_readlinkat:
    case SYS_symlink:
    case SYS_link:
      return 1;
    case SYS_symlinkat:
      return 2;
#ifdef SYS_open
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
    case SYS_mkdir:
    case SYS_readlink:
      return 0;
#endif
    default:
      return -1;
  }
}

// A file that the loop has asked for, and how often in vain.
struct Asked {
  model::PolledFile file;
  int in_vain = 0;
};

class CallWatch {
 public:
  CallWatch(base::Pid pid, LiveMemory& memory, bool sleeps, int64_t limit_ns,
            const std::function<void()>& at_call)
      : pid_(pid), memory_(memory), began_asleep_(sleeps), limit_ns_(limit_ns), at_call_(at_call) {}

  // Attaches, follows and detaches.
  void follow() {
    const base::MonoNs begin = base::mono_ns();
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto* options = reinterpret_cast<void*>(static_cast<intptr_t>(PTRACE_O_TRACESYSGOOD));
    if (::ptrace(PTRACE_SEIZE, pid_, nullptr, options) != 0) {
      return;
    }
    ::ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr);
    bool running = true;
    while (sleeps_ < 2 && calls_ < kMostCalls) {
      const auto stop = next_stop(begin + (began_asleep_ || woken_ ? limit_ns_ : kRunningWatchNs));
      if (!stop) {
        break;
      }
      running = false;
      if (*stop == Stop::group) {
        break;
      }
      if (*stop == Stop::call) {
        take_call();
        if (at_call_) {
          at_call_();
        }
      }
      if (sleeps_ == 2 || ::ptrace(PTRACE_SYSCALL, pid_, nullptr, signal_to_deliver()) != 0) {
        break;
      }
      running = true;
    }
    if (running && !gone_) {
      ::ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr);
      (void)next_stop(base::mono_ns() + kLastStopNs);
    }
    ::ptrace(PTRACE_DETACH, pid_, nullptr, signal_to_deliver());
  }

  std::vector<model::PolledFile> files() && {
    std::vector<model::PolledFile> out;
    for (Asked& asked : asked_) {
      if (woken_ || asked.in_vain >= kOftenInVain) {
        out.push_back(std::move(asked.file));
      }
    }
    return out;
  }

 private:
  enum class Stop { call, signal, event, group };

  std::optional<Stop> next_stop(base::MonoNs end) {
    int status = 0;
    pid_t got = 0;
    while ((got = ::waitpid(pid_, &status, __WALL | WNOHANG)) == 0 && base::mono_ns() < end) {
      ::nanosleep(&kBetweenLooks, nullptr);
    }
    gone_ = got < 0 || (got > 0 && !WIFSTOPPED(status));
    if (got <= 0 || gone_) {
      return std::nullopt;
    }
    if (status >> 16 == PTRACE_EVENT_STOP) {
      return WSTOPSIG(status) == SIGTRAP ? Stop::event : Stop::group;
    }
    if (WSTOPSIG(status) == kCallStop) {
      return Stop::call;
    }
    signal_ = WSTOPSIG(status);
    return Stop::signal;
  }

  void* signal_to_deliver() {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<void*>(static_cast<intptr_t>(std::exchange(signal_, 0)));
  }

  // At the entry of a call or, every second time, at its end.
  void take_call() {
    user_regs_struct regs{};
    iovec io{&regs, sizeof regs};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (::ptrace(PTRACE_GETREGSET, pid_, reinterpret_cast<void*>(NT_PRSTATUS), &io) != 0) {
      return;
    }
    const base::SystemCall call{.number = static_cast<int64_t>(regs.orig_rax),
                                .arguments = {regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9}};
    const auto result = static_cast<int64_t>(regs.rax);
    ++calls_;
    if (result == -ENOSYS) {  // the kernel's mark of an entry
      begun_ = true;
      sleeps_ += woken_ && is_sleep(call) ? 1 : 0;
      return;
    }
    woken_ = woken_ || is_sleep(call);
    sleeps_ = woken_ && sleeps_ == 0 ? 1 : sleeps_;
    if (std::exchange(begun_, false) && (woken_ || !began_asleep_)) {
      note(call, result);
    }
  }

  void note(const base::SystemCall& call, int64_t result) {
    model::PolledFile file{.path = {}, .missing = result < 0, .lock = {}};
    const int at = path_argument(call.number);
    if (at >= 0) {
      file.path = absolute(
          call, memory_.c_string(call.arguments[static_cast<size_t>(at)], kLongestPolled).value_or(""));
      file.missing = result == -ENOENT || result == -ENOTDIR;
      file.taken = result == -EEXIST;
    } else if (call.number == SYS_connect) {
      file.path = address_words(
          memory_.bytes(call.arguments[1], std::min<uint64_t>(call.arguments[2], sizeof(sockaddr_un)))
              .value_or(""));
      // A call that does not wait has no answer yet.
      file.missing = result < 0 && result != -EINPROGRESS && result != -EAGAIN;
    } else if (asks_for_lock(call) && (result == -EAGAIN || result == -EACCES)) {
      const auto fd = static_cast<int>(call.arguments[0]);
      file.path = base::ProcFs().link(pid_, fmt::format("fd/{}", fd));
      file.missing = false;
      file.lock = lock_on_file(pid_, fd);
    }
    if (!file.path.empty()) {
      add(std::move(file));
    }
  }

  void add(model::PolledFile file) {
    auto known = std::find_if(asked_.begin(), asked_.end(),
                              [&](const Asked& asked) { return asked.file.path == file.path; });
    if (known == asked_.end()) {
      if (asked_.size() == kMostFiles) {
        return;
      }
      known = asked_.insert(asked_.end(), {.file = {.path = file.path, .pids = {}, .lock = {}}});
    }
    known->in_vain += file.missing || file.taken || !file.lock.empty() ? 1 : 0;
    known->file.missing |= file.missing;
    known->file.taken |= file.taken;
    known->file.lock = file.lock.empty() ? known->file.lock : std::move(file.lock);
  }

  std::string absolute(const base::SystemCall& call, std::string path) const {
    if (path.empty() || path.front() == '/') {
      return path;
    }
    const bool at = path_argument(call.number) == 1 && call.number != SYS_symlink && call.number != SYS_link;
    const int directory = at ? static_cast<int>(call.arguments[0]) : -1;
    const std::string from = directory >= 0 ? fmt::format("fd/{}", directory) : std::string("cwd");
    return fmt::format("{}/{}", base::ProcFs().link(pid_, from), path);
  }

  base::Pid pid_;
  LiveMemory& memory_;
  bool began_asleep_;
  int64_t limit_ns_;
  const std::function<void()>& at_call_;
  std::vector<Asked> asked_;
  int signal_ = 0;
  bool gone_ = false;
  bool begun_ = false;  // the last stop was at the entry of a call
  bool woken_ = false;  // the thread has left its sleep
  int sleeps_ = 0;      // one is the sleep that it has left
  size_t calls_ = 0;
};

// A disk of this host, or memory: a look at the file cannot stall.
bool is_local(const model::FileSystem& fs) {
  constexpr std::string_view kLocal[] = {"ext2",  "ext3",    "ext4", "xfs", "btrfs",
                                         "tmpfs", "overlay", "zfs",  "f2fs"};
  return std::find(std::begin(kLocal), std::end(kLocal), fs.type) != std::end(kLocal);
}

// Since when the file exists, and who has it open.
void look_at(base::Pid pid, model::PolledFile& file) {
  const base::ProcFs proc;
  struct stat about {};
  if (is_local(model::file_system_of(proc.text(pid, "mountinfo"), file.path)) &&
      ::stat((proc.path(pid, "root") + file.path).c_str(), &about) == 0) {
    file.made_s = about.st_mtim.tv_sec;
  }
  if (file.lock.empty() && !S_ISDIR(about.st_mode)) {
    file.pids = base::with_open(proc, {file.path});
  }
}

int64_t time_at(LiveMemory& memory, Addr address, int64_t unit_ns) {
  const auto parts = memory.value<std::array<int64_t, 2>>(address);
  return parts ? (*parts)[0] * 1'000'000'000 + (*parts)[1] * unit_ns : 0;
}

// How long the sleep lasts at most, in ns; 0: not known.
int64_t length_of(const base::SystemCall& call, LiveMemory& memory) {
  switch (call.number) {
    case SYS_nanosleep:
      return time_at(memory, call.arguments[0], 1);
    case SYS_clock_nanosleep: {
      timespec now{};
      const bool absolute = (call.arguments[1] & TIMER_ABSTIME) != 0;
      ::clock_gettime(static_cast<clockid_t>(call.arguments[0]), &now);
      return time_at(memory, call.arguments[2], 1) -
             (absolute ? now.tv_sec * 1'000'000'000 + now.tv_nsec : 0);
    }
    case SYS_poll:
      return static_cast<int64_t>(call.arguments[2]) * 1'000'000;
    default:
      return 0;
  }
}

}  // namespace

bool is_sleep(std::string_view syscall_text) {
  return is_sleep(base::parse_system_call(syscall_text));
}

bool ends_soon(std::string_view syscall_text, LiveMemory& memory, int64_t limit_ns) {
  return length_of(base::parse_system_call(syscall_text), memory) < limit_ns;
}

std::vector<model::PolledFile> polled_files(base::Pid pid, const KernelView& main, LiveMemory& memory,
                                            int64_t limit_ns, const std::function<void()>& at_call) {
  const bool sleeps =
      main.state == 'S' && is_sleep(main.syscall_text) && ends_soon(main.syscall_text, memory, limit_ns);
  if (!sleeps && main.state != 'R') {
    return {};
  }
  CallWatch watch(pid, memory, sleeps, limit_ns, at_call);
  // Attachments belong to the thread that makes them: when it ends, the kernel detaches.
  std::thread([&watch] { watch.follow(); }).join();
  std::vector<model::PolledFile> out = std::move(watch).files();
  for (model::PolledFile& file : out) {
    if (!file.missing && file.path.starts_with('/')) {
      look_at(pid, file);
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
