#include "stackdump/debuggers/tracer_guard.h"

#include "common/base/clock.h"
#include "common/base/os/child.h"
#include "common/base/os/procfs.h"
#include "common/base/os/program.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr int kGuardPollMs = 20;
constexpr int64_t kSleepCheckNs = 100'000'000;
constexpr int64_t kLongestSleepNs = 500'000'000;
constexpr int64_t kPatienceNs = 2'000'000'000;  // patience with a killed debugger that does not end

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

base::Result<base::Pid> start_tool(const GuardedTool& tool) {
  // Before take_environment() clears PATH.
  XPURUN_TRY_ASSIGN(const std::string path, base::find_program(tool.argv[0]));
  return base::start_program({.path = path,
                              .argv = tool.argv,
                              .env = take_environment(),
                              .out = tool.out,
                              .err = tool.err,
                              .own_group = true,
                              .before_exec = [guard = ::getpid()] {
                                base::end_with_parent(guard);
                                for (const int signal : {SIGPIPE, SIGTERM, SIGHUP, SIGINT}) {
                                  ::signal(signal, SIG_DFL);
                                }
                              }});
}

// Kills all children of this process until none is left. A subreaper inherits orphaned grandchildren, so no
// tracer remains. False if a child was still alive at the time limit: a process in state D dies only when its
// sleep ends.
bool end_children(int64_t patience_ns) {
  const base::ProcFs proc;
  const base::MonoNs deadline = base::mono_ns() + patience_ns;
  for (int pause_ms = 1;; pause_ms = std::min(pause_ms * 2, 200)) {
    for (const base::Pid child : proc.children(::getpid())) {
      ::kill(child, SIGKILL);
    }
    pid_t reaped = 0;
    // __WALL also reaps children that were cloned with another exit signal than SIGCHLD.
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

// Whether somebody has written into the code of the target; also if that cannot be known.
bool may_have_breakpoints(base::Pid target) {
  const std::string text = target > 0 ? base::ProcFs().text(target, "smaps") : std::string();
  bool code = false;
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t permissions = line.find(' ') + 1;
    if (line.find('-') < permissions && line.size() > permissions + 2) {
      code = line[permissions + 2] == 'x' && line.find('/') != std::string_view::npos;
    } else if (code && line.starts_with("Private_Dirty:") &&
               line.find_first_of("123456789") != std::string_view::npos) {
      return true;
    }
  }
  return text.empty();
}

// gdb detaches at SIGTERM unless it is blocked: it removes its breakpoints from the target, and a thread that
// stands at a breakpoint continues. After SIGKILL such a thread dies of SIGTRAP, and the target with it. A
// debugger without breakpoints is not asked: while gdb waits for the target, gdb passes the request on as
// SIGINT, and if gdb ends before it has taken that signal back, the target dies of it.
void ask_to_detach(base::Pid tool, int64_t patience_ns) {
  ::kill(tool, SIGTERM);
  const base::MonoNs deadline = base::mono_ns() + patience_ns;
  siginfo_t ended{};
  // WNOWAIT leaves the child to be reaped by end_children().
  while (::waitid(P_PID, static_cast<id_t>(tool), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0 && base::mono_ns() < deadline) {
    ::poll(nullptr, 0, kGuardPollMs);
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
    if (::poll(&owner, 1, kGuardPollMs) > 0) {
      return report;  // no reader remains
    }
  }
}

[[noreturn]] void be_guard(const GuardedTool& tool, const TargetRepair& repair, int lifeline, int report_fd) {
  // A new session: Ctrl-C at the terminal and signals to this process group must not end the guard.
  ::setsid();
  ::prctl(PR_SET_NAME, "xpurun-guard");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int signal : {SIGPIPE, SIGTERM, SIGHUP, SIGINT}) {
    ::signal(signal, SIG_IGN);
  }
  // Standard output is a pipe; its end of file is the supervisor's sign that this helper has ended. The guard
  // must not keep the pipe open.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null, fd);
  }
  const auto child = start_tool(tool);
  ::close(tool.out);
  ::close(tool.err);
  GuardReport report{.end = ToolEnd::exited, .wait_status = 127 << 8};
  if (child) {
    report = watch(tool, *child, lifeline);
  }
  if (report.end == ToolEnd::timed_out && tool.detach_ns > 0 && may_have_breakpoints(tool.target)) {
    ask_to_detach(*child, tool.detach_ns);
  }
  const bool left = !base::ProcFs().children(::getpid()).empty();
  const bool clean = report.end == ToolEnd::exited && WIFEXITED(report.wait_status) &&
                     WEXITSTATUS(report.wait_status) < 128 && !left;
  report.finished = end_children(kPatienceNs);
  const auto send = [&] { return ::write(report_fd, &report, sizeof report) == sizeof report; };
  if (!report.finished) {
    send();
    // A tracer in state D still holds the target. The repair waits until the tracer is gone, or the target.
    while (!end_children(kPatienceNs) && !repair.target_gone()) {
    }
  }
  repair.after_tracer(clean ? TracerEnd::detached : TracerEnd::killed);
  const bool reported = !report.finished || send();
  ::_exit(reported ? 0 : 1);
}

}  // namespace

base::Result<TracerGuard> TracerGuard::start(const GuardedTool& tool) {
  XPURUN_TRY_ASSIGN(base::Pipe lifeline, base::make_pipe());
  XPURUN_TRY_ASSIGN(base::Pipe report, base::make_pipe());
  TracerGuard guard(tool.target);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // if the guard is killed, the tool becomes a child of this process
  auto pid = base::fork_child(base::ChildLife::outlives_parent, [&]() -> int {
    lifeline.write_end.reset();
    report.read_end.reset();
    be_guard(tool, guard.repair_, lifeline.read_end.get(), report.write_end.get());
  });
  if (!pid) {
    return base::fail(std::move(pid.error()).context(tool.argv[0]));
  }
  guard.pid_ = *pid;
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
