#include "stackdump/debuggers/tracer_guard.h"

#include "common/base/clock.h"
#include "common/base/os/procfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr int kPollMs = 20;
constexpr int64_t kSleepCheckNs = 100'000'000;
constexpr int64_t kLongestSleepNs = 500'000'000;
constexpr int64_t kPatienceNs = 2'000'000'000;  // for a killed debugger that does not end

struct Pipe {
  base::UniqueFd read_end;
  base::UniqueFd write_end;
};

base::Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return base::fail_errno("cannot create a pipe");
  }
  return Pipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

// The environment that a debugger needs. Rank variables would make the debugger look like a rank, and
// LD_PRELOAD would load the preload library into the debugger.
bool is_passed_on(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  constexpr std::array<std::string_view, 6> kNames = {"PATH",   "HOME", "LD_LIBRARY_PATH",
                                                      "TMPDIR", "TERM", "USER"};
  return name.starts_with("CUDA") || name.starts_with("CUDBG") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Moves the variables out of the memory that /proc/PID/environ shows. The supervisor recognises ranks by that
// file, and the guard becomes the supervisor's child if this process is killed.
std::vector<std::string> take_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (is_passed_on(*variable)) {
      out.emplace_back(*variable);
    }
    std::memset(*variable, 0, std::strlen(*variable));
  }
  out.emplace_back("LC_ALL=C");
  // gdb embeds Python, and PYTHONUNBUFFERED makes the C library's stdout unbuffered too. With buffering, a
  // killed gdb would lose its output to the pipe.
  out.emplace_back("PYTHONUNBUFFERED=1");
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) {
    out.push_back(const_cast<char*>(word.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  out.push_back(nullptr);
  return out;
}

// Runs in the child; never returns. PR_SET_PDEATHSIG has no effect if the parent died before the call, hence
// the check of the parent.
[[noreturn]] void become(const GuardedTool& tool, pid_t parent, const std::vector<std::string>& environment) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(127);
  }
  for (const int signal : {SIGPIPE, SIGTERM, SIGHUP, SIGINT}) {
    ::signal(signal, SIG_DFL);
  }
  ::dup2(tool.out, STDOUT_FILENO);
  ::dup2(tool.err, STDERR_FILENO);
  // execvpe(3) would search the PATH of this process, whose variables take_environment() has cleared.
  std::vector<char*> variables = pointers(environment);
  environ = variables.data();
  ::execvp(tool.argv[0].c_str(), pointers(tool.argv).data());
  ::_exit(127);
}

// Kills all children of this process until none is left. A subreaper inherits orphaned grandchildren, so no
// tracer remains. False if a child was still alive at the time limit; a process in state D dies only when the
// sleep ends.
bool end_children(int64_t patience_ns) {
  const base::ProcFs proc;
  const base::MonoNs deadline = base::mono_ns() + patience_ns;
  for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 200)) {
    for (const base::Pid child : proc.children(::getpid())) {
      ::kill(child, SIGKILL);
    }
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG | __WALL)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) {
      return true;
    }
    if (base::mono_ns() >= deadline) {
      return false;
    }
    ::poll(nullptr, 0, pause_ms);
  }
}

// Tracks a thread that stays in uninterruptible sleep.
class SleepWatch {
 public:
  explicit SleepWatch(base::Pid target) : target_(target) {}

  base::Tid check(base::MonoNs now) {
    if (target_ == 0 || now - checked_ < kSleepCheckNs) {
      return 0;
    }
    checked_ = now;
    const base::Tid tid = uninterruptible_thread(target_).value_or(0);
    if (tid != tid_) {
      tid_ = tid;
      since_ = now;
    }
    return tid_ != 0 && now - since_ >= kLongestSleepNs ? tid_ : 0;
  }

 private:
  base::Pid target_;
  base::MonoNs checked_ = 0;
  base::MonoNs since_ = 0;
  base::Tid tid_ = 0;
};

// Waits until the tool has exited or must be ended.
GuardReport watch(const GuardedTool& tool, pid_t child, int lifeline) {
  const base::MonoNs deadline = base::mono_ns() + tool.limit_ns;
  SleepWatch sleep(tool.target);
  GuardReport report;
  pollfd owner{.fd = lifeline, .events = POLLIN, .revents = 0};
  for (;;) {
    if (::waitpid(child, &report.wait_status, WNOHANG) == child) {
      report.end = ToolEnd::exited;
      return report;
    }
    const base::MonoNs now = base::mono_ns();
    if (now >= deadline) {
      report.end = ToolEnd::timed_out;
      return report;
    }
    if ((report.asleep = sleep.check(now)) != 0) {
      report.end = ToolEnd::asleep;
      return report;
    }
    if (::poll(&owner, 1, kPollMs) > 0) {
      return report;  // no reader is left
    }
  }
}

[[noreturn]] void be_guard(const GuardedTool& tool, const TargetRepair& repair, int lifeline, int report_fd) {
  // An own session: Ctrl-C at the terminal and signals to our process group must not end the guard.
  ::setsid();
  ::prctl(PR_SET_NAME, "xpurun-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int signal : {SIGPIPE, SIGTERM, SIGHUP, SIGINT}) {
    ::signal(signal, SIG_IGN);
  }
  // Our standard output is a pipe; its end of file tells the supervisor that this helper has ended. The guard
  // must not keep the pipe open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null, fd);
  }
  const auto environment = take_environment();
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(tool, self, environment);
  }
  GuardReport report{.end = ToolEnd::exited, .wait_status = 127 << 8};
  if (child > 0) {
    ::setpgid(child, child);  // parent and child both set the group; the first call counts
    ::close(tool.out);
    ::close(tool.err);
    report = watch(tool, child, lifeline);
  }
  const bool left = !base::ProcFs().children(self).empty();
  const bool clean = report.end == ToolEnd::exited && WIFEXITED(report.wait_status) &&
                     WEXITSTATUS(report.wait_status) < 128 && !left;
  report.finished = end_children(kPatienceNs);
  const auto send = [&] { return ::write(report_fd, &report, sizeof report) == sizeof report; };
  if (!report.finished) {
    send();
    while (!end_children(kPatienceNs) && !repair.target_gone()) {
    }
  }
  repair.after_tracer(clean ? TracerEnd::detached : TracerEnd::killed);
  const bool told = !report.finished || send();
  ::_exit(told ? 0 : 1);
}

}  // namespace

base::Result<TracerGuard> TracerGuard::start(const GuardedTool& tool) {
  XPURUN_TRY_ASSIGN(Pipe lifeline, make_pipe());
  XPURUN_TRY_ASSIGN(Pipe report, make_pipe());
  TracerGuard guard(tool.target);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the tool becomes our child if the guard is killed
  guard.pid_ = ::fork();
  if (guard.pid_ < 0) {
    return base::fail_errno(fmt::format("cannot start {}", tool.argv[0]));
  }
  if (guard.pid_ == 0) {
    lifeline.write_end.reset();
    report.read_end.reset();
    be_guard(tool, guard.repair_, lifeline.read_end.get(), report.write_end.get());
  }
  guard.lifeline_ = std::move(lifeline.write_end);
  guard.report_ = std::move(report.read_end);
  return guard;
}

GuardReport TracerGuard::report() {
  GuardReport out;
  ssize_t n = 0;
  while ((n = ::read(report_.get(), &out, sizeof out)) < 0 && errno == EINTR) {
  }
  if (n != sizeof out) {
    // The tool has a parent-death signal; the processes that it started have none.
    out = {};
    end_children(kPatienceNs);
    repair_.after_tracer(TracerEnd::killed);
  } else if (out.finished) {
    ::waitpid(pid_, nullptr, 0);
  }
  return out;
}

}  // namespace xpurun::stackdump
