#include "launcher/relay/relay_keeper.h"

#include "common/base/os/close_descriptors.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "launcher/os/pidfd.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

using Part = RelayMemory::Part;

constexpr int kRestartMs = 50;
// Between two looks at a relay that is not a child.
constexpr int kLookMs = 200;
// Sent by the kernel when the keeper ends. All signals are blocked, so it only ends a wait.
constexpr int kKeeperEnded = SIGUSR1;

// A process that outlives the supervisor must not keep the supervisor's descriptors open, nor those of a
// killed relay. `kept` is sorted.
void close_all_but(const std::vector<int>& kept) {
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) {
      base::close_descriptors(next, number - 1);
    }
    next = std::max(next, number + 1);
  }
  base::close_descriptors(next, ~0U);
}

// Forks a process that shares this process's descriptor table (CLONE_FILES): descriptors that it opens stay
// open when it is killed. The raw system call, because fork() cannot share the table and glibc's clone()
// needs a stack.
pid_t fork_with_descriptors() {
  return static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Replaces the arguments that other processes see. `pkill -f xpurun` is meant for xpurun, and must not end
// the ranks' output with it.
void name_process(const char* name) {
  ::prctl(PR_SET_NAME, name);
  const std::string stat = base::ProcFs().text(::getpid(), "stat");
  const auto fields =
      base::split(std::string_view(stat).substr(std::min(stat.rfind(')') + 1, stat.size())), ' ');
  // Fields 48 and 49 of proc(5): the beginning and the end of the arguments. fields[1] is field 3.
  if (fields.size() < 48) {
    return;
  }
  const auto begin = static_cast<uintptr_t>(base::parse_int(fields[46]).value_or(0));
  const auto end = static_cast<uintptr_t>(base::parse_int(fields[47]).value_or(0));
  const size_t length = std::strlen(name) + 1;
  if (begin == 0 || end <= begin || end - begin < length) {
    return;
  }
  auto* const arguments =
      reinterpret_cast<char*>(begin);  // NOLINT(performance-no-int-to-ptr): from the kernel
  std::memset(arguments, 0, end - begin);
  std::memcpy(arguments, name, length);
}

class Keeper {
 public:
  Keeper(const RelaySetup& setup, RelayMemory& memory) : setup_(setup), memory_(memory) {}
  [[noreturn]] void run();

 private:
  void start_relay();
  void start_deputy();
  [[noreturn]] void be_deputy();
  void await_an_end();
  bool relay_lives();

  const RelaySetup& setup_;
  RelayMemory& memory_;
  pid_t relay_ = 0;   // 0: has ended
  Pidfd heirloom_;    // of a relay that the killed keeper had started
  pid_t deputy_ = 0;  // 0: has ended
};

void Keeper::start_relay() {
  const pid_t pid = memory_.works() ? fork_with_descriptors() : -1;
  if (pid > 0) {
    relay_ = pid;
    memory_.set_pid(Part::relay, pid);
    return;
  }
  name_process("log-relay");
  relay_output({.listener = base::UniqueFd(memory_.works() ? memory_.listener() : setup_.listener.get()),
                .channel = base::UniqueFd(memory_.works() ? memory_.channel() : setup_.channel.get()),
                .directory = setup_.directory,
                .prefix = setup_.prefix},
               memory_);
}

void Keeper::start_deputy() {
  const pid_t pid = fork_with_descriptors();
  if (pid == 0) {
    be_deputy();
  }
  deputy_ = std::max(pid, 0);
  memory_.set_pid(Part::deputy, deputy_);
}

void Keeper::be_deputy() {
  const pid_t keeper = memory_.pid(Part::keeper);
  name_process("log-deputy");
  ::prctl(PR_SET_PDEATHSIG, kKeeperEnded);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, kKeeperEnded);
  while (::getppid() == keeper) {
    (void)::sigwaitinfo(&ended, nullptr);
  }
  if (memory_.ended() >= 0) {
    ::_exit(memory_.ended());
  }
  ::prctl(PR_SET_PDEATHSIG, 0);
  relay_ = memory_.pid(Part::relay);
  if (auto fd = Pidfd::open(relay_)) {
    heirloom_ = std::move(*fd);
  } else {
    relay_ = 0;
  }
  deputy_ = 0;
  run();
}

bool Keeper::relay_lives() {
  if (!heirloom_) {
    return relay_ != 0;
  }
  pollfd waiting{.fd = heirloom_.fd(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, 0) != 0) {
    heirloom_ = Pidfd();
    relay_ = 0;
  }
  return relay_ != 0;
}

void Keeper::await_an_end() {
  int status = 0;
  const pid_t pid = ::waitpid(-1, &status, heirloom_ ? WNOHANG : 0);
  if (pid > 0) {
    relay_ = pid == relay_ ? 0 : relay_;
    deputy_ = pid == deputy_ ? 0 : deputy_;
  } else if (heirloom_ || pid < 0) {
    (void)::poll(nullptr, 0, kLookMs);
  }
}

void Keeper::run() {
  memory_.set_pid(Part::keeper, ::getpid());
  name_process("log-keeper");
  for (bool first = true;; first = false) {
    if (!relay_lives()) {
      if (memory_.ended() >= 0) {
        ::_exit(memory_.ended());
      }
      if (!first) {
        close_all_but(memory_.descriptors());
        (void)::poll(nullptr, 0, kRestartMs);  // pause, in case each successor dies at once
      }
      start_relay();
    }
    if (deputy_ == 0) {
      start_deputy();
    }
    await_an_end();
  }
}

}  // namespace

void keep_relay(RelaySetup setup, RelayMemory& memory) {
  close_all_but({std::min(setup.listener.get(), setup.channel.get()),
                 std::max(setup.listener.get(), setup.channel.get())});
  // Ignores the terminal's signals and those that a scheduler sends to all processes of the job, because
  // ranks write output until they end. The relay ends with the last writer. SIGPIPE and SIGXFSZ become write
  // errors.
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  if (::chdir("/") != 0) {
    ::_exit(1);
  }
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) {
    ::dup2(null, STDIN_FILENO);
    ::close(null);
  }
  // Never deleted: its processes end without destructors.
  (new Keeper(*new RelaySetup(std::move(setup)), memory))->run();
}

}  // namespace xpurun::launcher
