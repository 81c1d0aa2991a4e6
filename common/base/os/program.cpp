#include "common/base/os/program.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::base {

namespace {

constexpr int kExecFailed = 127;

// 0, or why the file cannot be run.
int check_program(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return errno;
  }
  return S_ISDIR(st.st_mode) || ::access(path.c_str(), X_OK) != 0 ? EACCES : 0;
}

// The memory of the child between vfork and exec is the caller's, so everything is allocated before.
struct Prepared {
  const ProgramStart* start;
  std::vector<char*> argv;
  std::vector<char*> env;
  std::vector<char*> shell_argv;
  sigset_t mask;
  std::array<int, 3> streams;
};

[[noreturn]] void become(const Prepared& p, volatile int& error) {
  if (p.start->own_group) {
    ::setpgid(0, 0);
  }
  bool wired = true;
  for (int fd = 0; fd < 3; ++fd) {
    const int from = p.streams[static_cast<size_t>(fd)];
    // dup2(2) of a descriptor to itself would keep its close-on-exec flag.
    wired = wired && (from < 0 || (from == fd ? ::fcntl(fd, F_SETFD, 0) == 0 : ::dup2(from, fd) == fd));
  }
  if (wired) {
    if (p.start->before_exec) {
      p.start->before_exec();
    }
    ::sigprocmask(SIG_SETMASK, &p.mask, nullptr);
    ::execve(p.start->path.c_str(), p.argv.data(), p.env.data());
    if (errno == ENOEXEC) {
      ::execve("/bin/sh", p.shell_argv.data(), p.env.data());
    }
  }
  error = errno;
  ::_exit(kExecFailed);
}

// vfork(2): the supervisor's memory is not copied, and the error of a failed exec needs no pipe, so that a
// process without a free descriptor can start programs too. Signals are blocked until the exec: a handler
// would run in shared memory.
__attribute__((noinline)) pid_t start_child(const Prepared& p, volatile int& error) {
  const pid_t pid = ::vfork();
  if (pid == 0) {
    become(p, error);
  }
  return pid;
}

// A descriptor below 3 that stands for another stream would be overwritten before its turn.
Result<UniqueFd> above_streams(int fd, int stream) {
  if (fd < 0 || fd > 2 || fd == stream) {
    return UniqueFd();
  }
  UniqueFd moved(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!moved) {
    return fail_errno("cannot copy a descriptor");
  }
  return moved;
}

}  // namespace

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail_errno("cannot create a pipe");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<std::string> find_program(const std::string& name) {
  int worst = ENOENT;
  if (name.find('/') != std::string::npos) {
    worst = check_program(name);
    if (worst == 0) {
      return name;
    }
  } else if (!name.empty()) {
    const char* path = std::getenv("PATH");
    for (std::string_view dir : split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
      const std::string candidate = fmt::format("{}/{}", dir.empty() ? "." : dir, name);
      const int err = check_program(candidate);
      if (err == 0) {
        return candidate;
      }
      worst = err == EACCES ? EACCES : worst;
    }
  }
  return fail_errno(fmt::format("cannot run {}", shell_quote(name)), worst);
}

std::vector<char*> c_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) {
    out.push_back(const_cast<char*>(s.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

Result<Pid> start_program(const ProgramStart& start) {
  Prepared p{.start = &start,
             .argv = c_pointers(start.argv),
             .env = c_pointers(start.env),
             .shell_argv = {const_cast<char*>("/bin/sh"), const_cast<char*>(start.path.c_str())},
             .mask = {},
             .streams = {start.in, start.out, start.err}};
  p.shell_argv.insert(p.shell_argv.end(), p.argv.size() > 1 ? p.argv.begin() + 1 : p.argv.begin(),
                      p.argv.end());
  std::array<UniqueFd, 3> moved;
  for (size_t i = 0; i < moved.size(); ++i) {
    XPURUN_TRY_ASSIGN(moved[i], above_streams(p.streams[i], static_cast<int>(i)));
    p.streams[i] = moved[i] ? moved[i].get() : p.streams[i];
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  p.mask = start.signal_mask.value_or(before);
  volatile int error = 0;
  const pid_t pid = start_child(p, error);
  if (pid < 0) {
    error = errno;
  } else if (error != 0) {
    ::waitpid(pid, nullptr, 0);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return fail_errno(fmt::format("cannot run {}", shell_quote(start.path)), error);
  }
  return pid;
}

}  // namespace xpurun::base
