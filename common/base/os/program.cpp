#include "common/base/os/program.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

// Without this macro Boost declares its use of vfork but does not define it.
#define BOOST_POSIX_HAS_VFORK 1
#include <boost/process/child.hpp>
#include <boost/process/extend.hpp>
#include <boost/process/posix.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace xpurun::base {

namespace bp = boost::process;

namespace {

constexpr int kExecFailed = 127;
constexpr const char* kShell = "/bin/sh";

// 0, or the errno that explains why the file cannot be run.
int check_program(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return errno;
  }
  return S_ISDIR(st.st_mode) || ::access(path.c_str(), X_OK) != 0 ? EACCES : 0;
}

// Everything that the child needs, allocated before the fork: between vfork and exec the child uses the
// caller's memory.
struct Prepared {
  const ProgramStart* start;
  const char* path;
  std::vector<char*> argv;
  std::vector<char*> env;
  sigset_t mask;
  std::array<int, 3> streams;
  volatile int error;
  pid_t failed;  // the child whose exec failed; 0: none
};

// Sets argv, environment, streams and signal mask exactly. Boost alone would put the resolved path into
// argv[0].
struct ExactProgram : bp::extend::handler {
  explicit ExactProgram(Prepared& prepared) : p(&prepared) {}

  template <typename Executor>
  void on_setup(Executor& exec) const {
    exec.exe = p->path;
    exec.cmd_line = p->argv.data();
    exec.env = p->env.data();
  }
  template <typename Executor>
  void on_exec_setup(Executor&) const {
    if (p->start->own_group) {
      ::setpgid(0, 0);
    }
    for (int fd = 0; fd < 3; ++fd) {
      const int from = p->streams[static_cast<size_t>(fd)];
      // dup2(2) of a descriptor to itself would keep its close-on-exec flag.
      if (from >= 0 && (from == fd ? ::fcntl(fd, F_SETFD, 0) != 0 : ::dup2(from, fd) != fd)) {
        p->error = errno;
        ::_exit(kExecFailed);
      }
    }
    if (p->start->before_exec) {
      p->start->before_exec();
    }
    // The mask last, so that no signal handler of the caller interrupts before_exec().
    ::sigprocmask(SIG_SETMASK, &p->mask, nullptr);
  }
  template <typename Executor>
  void on_exec_error(Executor&, const std::error_code& ec) const {
    p->error = ec.value();
    ::_exit(kExecFailed);
  }
  template <typename Executor>
  void on_fork_error(Executor&, const std::error_code& ec) const {
    p->error = ec.value();
  }
  template <typename Executor>
  void on_error(Executor& exec, const std::error_code&) const {
    p->failed = exec.pid;
  }

  Prepared* p;
};

// vfork(2): does not copy the supervisor's memory, and reports a failed exec without a pipe, so that a
// process without a free descriptor can still start programs. The caller has blocked all signals, because a
// handler would run in shared memory.
Pid start_child(Prepared& p) {
  std::error_code ec;
  bp::child child(ExactProgram(p), bp::posix::use_vfork, ec);
  const Pid pid = child.id();
  // bp::child's destructor would terminate the child, and its wait would reap the child unseen.
  child.detach();
  // Boost reaps a child after a failed exec only if the child has already ended.
  if (p.error != 0 && std::max(pid, p.failed) > 0) {
    ::waitpid(std::max(pid, p.failed), nullptr, 0);
  }
  return pid;
}

// Moves descriptors below 3 out of the way: a descriptor meant for one stream could be overwritten by another
// stream first.
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
      // An empty entry of PATH is the working directory (POSIX).
      const std::string candidate = fmt::format("{}/{}", dir.empty() ? "." : dir, name);
      const int err = check_program(candidate);
      if (err == 0) {
        return candidate;
      }
      // Like execvp(3): a candidate without permission outweighs missing ones.
      worst = err == EACCES ? EACCES : worst;
    }
  }
  return fail_errno(cli_text("cannot run {}", shell_quote(name)), worst);
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
             .path = start.path.c_str(),
             .argv = c_pointers(start.argv),
             .env = c_pointers(start.env),
             .mask = {},
             .streams = {start.in, start.out, start.err},
             .error = 0,
             .failed = 0};
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
  Pid pid = start_child(p);
  if (p.error == ENOEXEC) {
    // A script without an interpreter line: like execvp(3), run it with the shell.
    std::vector<char*> words = {const_cast<char*>(kShell), const_cast<char*>(start.path.c_str())};
    words.insert(words.end(), p.argv.size() > 1 ? p.argv.begin() + 1 : p.argv.begin(), p.argv.end());
    p.path = kShell;
    p.argv = std::move(words);
    p.error = 0;
    p.failed = 0;
    pid = start_child(p);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (p.error != 0) {
    return fail_errno(fmt::format("cannot run {}", shell_quote(start.path)), p.error);
  }
  return pid;
}

}  // namespace xpurun::base
