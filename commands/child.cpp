#include "commands/child.h"

#include "common/base/clock.h"
#include "common/base/os/child.h"
#include "common/base/os/program.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Bytes. More than any check prints.
constexpr size_t kMostOutput = size_t{4} << 20;

int exit_status_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

ProgramOutput output_of(base::Result<CommandChild> child, double timeout_s) {
  if (!child) {
    return {};
  }
  const auto status = child->finish(timeout_s);
  return {.status = status.value_or(-1), .output = child->output()};
}

}  // namespace

CommandChild::CommandChild(CommandChild&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      out_(std::move(other.out_)),
      output_(std::move(other.output_)),
      taken_(other.taken_) {}

base::Result<CommandChild> CommandChild::fork(const std::function<int()>& body) {
  XPURUN_TRY_ASSIGN(base::Pipe output, base::make_pipe());
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  XPURUN_TRY_ASSIGN(const base::Pid pid, base::fork_child(base::ChildLife::ends_with_parent, [&] {
                      ::setpgid(0, 0);
                      const bool wired = ::dup2(null.get(), STDIN_FILENO) >= 0 &&
                                         ::dup2(output.write_end.get(), STDOUT_FILENO) >= 0 &&
                                         ::dup2(null.get(), STDERR_FILENO) >= 0;
                      return wired ? body() : 125;
                    }));
  // In the parent too: whichever process runs first, the group exists before it is killed.
  ::setpgid(pid, pid);
  return CommandChild(pid, std::move(output.read_end));
}

base::Result<CommandChild> CommandChild::start(const std::vector<std::string>& argv,
                                               const std::vector<std::string>& env) {
  XPURUN_TRY_ASSIGN(const std::string program, resolve_program(argv.at(0)));
  XPURUN_TRY_ASSIGN(base::Pipe output, base::make_pipe());
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  XPURUN_TRY_ASSIGN(
      const base::Pid pid,
      base::start_program({.path = program,
                           .argv = argv,
                           .env = env,
                           .in = null.get(),
                           .out = output.write_end.get(),
                           .err = null.get(),
                           .own_group = true,
                           .before_exec = [parent = ::getpid()] { base::end_with_parent(parent); }}));
  return CommandChild(pid, std::move(output.read_end));
}

bool CommandChild::read_some(double timeout_s) {
  pollfd waiting{.fd = out_.get(), .events = POLLIN, .revents = 0};
  const int ms = static_cast<int>(std::max(timeout_s, 0.0) * 1000);
  if (output_.size() > kMostOutput || ::poll(&waiting, 1, ms) <= 0) {
    return false;
  }
  char buf[16384];
  const ssize_t n = ::read(out_.get(), buf, sizeof buf);
  if (n <= 0) {
    return false;
  }
  output_.append(buf, static_cast<size_t>(n));
  return true;
}

std::optional<std::string> CommandChild::line(double timeout_s) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(timeout_s);
  for (;;) {
    if (const size_t newline = output_.find('\n', taken_); newline != std::string::npos) {
      std::string out = output_.substr(taken_, newline - taken_);
      taken_ = newline + 1;
      return out;
    }
    if (!read_some(base::ns_to_s(end - base::mono_ns()))) {
      return std::nullopt;
    }
  }
}

std::optional<int> CommandChild::finish(double timeout_s) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(timeout_s);
  while (read_some(base::ns_to_s(end - base::mono_ns()))) {
  }
  // The child may have closed its output without ending.
  for (;;) {
    int status = 0;
    const base::Pid done = ::waitpid(pid_, &status, WNOHANG);
    if (done == pid_) {
      // Processes that the child has started may still run.
      ::kill(-pid_, SIGKILL);
      pid_ = 0;
      return exit_status_of(status);
    }
    if ((done < 0 && errno != EINTR) || base::mono_ns() >= end) {
      kill();
      return std::nullopt;
    }
    ::usleep(2000);
  }
}

void CommandChild::kill() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    // The child may have left its group (setsid(2)).
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
}

ProgramOutput run_program(const std::vector<std::string>& argv, double timeout_s) {
  return output_of(CommandChild::start(argv, current_environment()), timeout_s);
}

ProgramOutput run_function(const std::function<int()>& body, double timeout_s) {
  return output_of(CommandChild::fork(body), timeout_s);
}

std::string find_program(const std::string& name) {
  return resolve_program(name).value_or(std::string());
}

}  // namespace xpurun::launcher
