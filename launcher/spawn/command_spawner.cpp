#include "launcher/spawn/command_spawner.h"

#include "common/base/strings.h"

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/error.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/extend.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

namespace bp = boost::process;

// A null-terminated array of pointers into the caller's strings.
std::vector<char*> c_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) {
    out.push_back(const_cast<char*>(s.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

// Sets argv, environment and signal mask of the command exactly: Boost would put the resolved path in
// argv[0].
struct ExactCommand : bp::extend::handler {
  ExactCommand(char** argv_in, char** env_in, const sigset_t& mask_in, const InheritedState& inherited_in)
      : argv(argv_in), env(env_in), mask(mask_in), inherited(&inherited_in) {}

  template <typename Executor>
  void on_setup(Executor& exec) const {
    exec.cmd_line = argv;
    exec.env = env;
  }
  template <typename Executor>
  void on_exec_setup(Executor&) const {
    // Dispositions first: setting the mask delivers pending signals.
    inherited->restore();
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  }

  char** argv;
  char** env;
  sigset_t mask;
  const InheritedState* inherited;
};

int check_program(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return errno;
  }
  if (S_ISDIR(st.st_mode) || ::access(path.c_str(), X_OK) != 0) {
    return EACCES;
  }
  return 0;
}

}  // namespace

base::Result<std::string> resolve_program(const std::string& name) {
  int worst = ENOENT;
  if (name.find('/') != std::string::npos) {
    worst = check_program(name);
    if (worst == 0) {
      return name;
    }
  } else if (!name.empty()) {
    const char* path = std::getenv("PATH");
    for (std::string_view dir : base::split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
      const std::string candidate = fmt::format("{}/{}", dir.empty() ? "." : dir, name);
      const int err = check_program(candidate);
      if (err == 0) {
        return candidate;
      }
      worst = err == EACCES ? EACCES : worst;
    }
  }
  base::Error e{.what = fmt::format("cannot run {}", base::shell_quote(name)), .sys_errno = worst};
  e.id = worst == EACCES ? "E-NOT-EXECUTABLE" : "E-NOT-FOUND";
  e.hint = worst == EACCES ? fmt::format("chmod +x {0}, or name its interpreter: xpurun -- python {0}", name)
                           : fmt::format("command -v {}", base::shell_quote(name));
  return base::fail(std::move(e));
}

base::Result<base::Pid> spawn_command(const Command& command) {
  XPURUN_TRY_ASSIGN(const std::string program, resolve_program(command.argv.at(0)));
  std::vector<char*> argv = c_pointers(command.argv);
  std::vector<char*> env = c_pointers(command.env);
  const auto start = [&](const std::string& exe) -> std::pair<base::Pid, int> {
    std::error_code error;
    bp::child child(bp::exe = exe,
                    ExactCommand(argv.data(), env.data(), command.signal_mask, command.inherited), error);
    const int err = errno;
    const base::Pid pid = error ? 0 : child.id();
    // Boost's destructor would terminate the child, and its wait would reap the child unseen.
    child.detach();
    // Boost does not report that its pipe for exec errors could not be made (no free descriptor); then there is
    // no child.
    return {pid, error || pid > 0 ? error.value() : (err != 0 ? err : EMFILE)};
  };
  auto [pid, err] = start(program);
  if (err == ENOEXEC) {
    // A script without an interpreter line: execvp(3) hands it to the shell.
    std::vector<std::string> shell_argv = {"/bin/sh", program};
    shell_argv.insert(shell_argv.end(), command.argv.begin() + 1, command.argv.end());
    argv = c_pointers(shell_argv);
    std::tie(pid, err) = start("/bin/sh");
  }
  if (err != 0) {
    base::Error e{.what = fmt::format("cannot run {}", base::shell_quote(command.argv.at(0))),
                  .sys_errno = err};
    const bool limit = err == EMFILE || err == ENFILE || err == EAGAIN || err == ENOMEM;
    e.id = err == ENOENT ? "E-NOT-FOUND" : (limit ? "E-LIMIT" : "E-NOT-EXECUTABLE");
    if (limit) {
      e.hint = "ulimit -a";
    }
    if (err == ENOENT) {
      e.cause = "the file exists, but the interpreter it names does not";
      e.hint = fmt::format("head -1 {}", base::shell_quote(program));
    }
    return base::fail(std::move(e));
  }
  return pid;
}

}  // namespace xpurun::launcher
