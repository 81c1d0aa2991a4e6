#include "commands/selftest/quiet_process.h"

#include "common/base/os/child.h"
#include "common/base/os/fd.h"
#include "common/base/os/program.h"
#include "common/wire/identity.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Variables of launchers and of xpurun: the job here has its own launcher and its own xpurun.
constexpr std::string_view kForeign[] = {"XPURUN_",          "XPU_TIMER_", "TORCHELASTIC_", "MASTER_",
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

}  // namespace

base::Result<base::Pid> start(const QuietProcess& process) {
  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const base::UniqueFd output(::open(process.output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!null || !output) {
    return base::fail_errno(fmt::format("cannot open {}", null ? process.output : "/dev/null"));
  }
  return base::start_program({.path = process.argv.at(0),
                              .argv = process.argv,
                              .env = process.env,
                              .in = null.get(),
                              .out = output.get(),
                              .err = output.get(),
                              .own_group = true,
                              .signal_mask = process.signal_mask,
                              .before_exec = [&process, parent = ::getpid()] {
                                base::end_with_parent(parent, SIGTERM);
                                if (::chdir(process.directory.c_str()) != 0) {
                                  ::_exit(125);
                                }
                              }});
}

std::vector<std::string> job_environment(const std::vector<std::string>& own, const std::string& scratch) {
  std::vector<std::string> out;
  std::copy_if(own.begin(), own.end(), std::back_inserter(out),
               [](const std::string& variable) { return !is_foreign(variable); });
  out = with_variable(std::move(out), "XDG_CONFIG_HOME", scratch);
  // A killed Python leaves the directory of multiprocessing behind. Its sockets need a short path.
  constexpr size_t kLongestForSockets = 64;
  if (scratch.size() <= kLongestForSockets) {
    out = with_variable(std::move(out), "TMPDIR", scratch);
  }
  return with_variable(std::move(out), "PYTHONDONTWRITEBYTECODE", "1");
}

}  // namespace xpurun::launcher
