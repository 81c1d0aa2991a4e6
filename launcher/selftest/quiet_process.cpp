#include "launcher/selftest/quiet_process.h"

#include "common/base/os/fd.h"
#include "common/wire/identity.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <fcntl.h>
#include <string_view>
#include <sys/prctl.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Variables of launchers and of xpurun: the job here has its own launcher and its own xpurun.
constexpr std::string_view kForeign[] = {"XPURUN_",        "XPU_TIMER_", "TORCHELASTIC_", "MASTER_",
                                         "LOCAL_WORLD_SIZE", "GROUP_",     "ROLE_",         "SLURM_"};

bool is_foreign(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  const auto& ranks = wire::kIdentityVariables;
  return std::any_of(std::begin(kForeign), std::end(kForeign),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::any_of(std::begin(ranks), std::end(ranks), [&](const wire::IdentityVariables& kind) {
           return name == kind.rank || name == kind.local_rank || name == kind.world_size;
         });
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) {
    out.push_back(const_cast<char*>(word.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void become(const QuietProcess& process, int null, int output, base::Pid parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::sigprocmask(SIG_SETMASK, &process.signal_mask, nullptr);
  if (::getppid() == parent && ::dup2(null, STDIN_FILENO) >= 0 && ::dup2(output, STDOUT_FILENO) >= 0 &&
      ::dup2(output, STDERR_FILENO) >= 0 && ::chdir(process.directory.c_str()) == 0) {
    ::execve(process.argv[0].c_str(), pointers(process.argv).data(), pointers(process.env).data());
  }
  ::_exit(126);
}

}  // namespace

base::Result<base::Pid> start(const QuietProcess& process) {
  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd output(
      ::open(process.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!null || !output) {
    return base::fail_errno(fmt::format("cannot open {}", null ? process.output : "/dev/null"));
  }
  const base::Pid parent = ::getpid();
  const base::Pid pid = ::fork();
  if (pid < 0) {
    return base::fail_errno("cannot fork");
  }
  if (pid == 0) {
    become(process, null.get(), output.get(), parent);
  }
  ::setpgid(pid, pid);
  return pid;
}

std::vector<std::string> job_environment(const std::vector<std::string>& own, const std::string& scratch) {
  std::vector<std::string> out;
  std::copy_if(own.begin(), own.end(), std::back_inserter(out),
               [](const std::string& variable) { return !is_foreign(variable); });
  out = with_variable(std::move(out), "XDG_CONFIG_HOME", scratch);
  return with_variable(std::move(out), "PYTHONDONTWRITEBYTECODE", "1");
}

}  // namespace xpurun::launcher
