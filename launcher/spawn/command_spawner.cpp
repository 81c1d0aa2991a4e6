#include "launcher/spawn/command_spawner.h"

#include "common/base/error_ids.h"
#include "common/base/os/program.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <cerrno>

namespace xpurun::launcher {

base::Result<std::string> resolve_program(const std::string& name) {
  auto found = base::find_program(name);
  if (!found) {
    base::Error& e = found.error();
    const bool is_file = e.sys_errno == EACCES;
    e.id = is_file ? base::kNotExecutable : base::kNotFound;
    e.hint = is_file ? base::cli_text("chmod +x {0}, or name its interpreter: xpurun -- python {0}", name)
                     : fmt::format("command -v {}", base::shell_quote(name));
  }
  return found;
}

base::Result<base::Pid> spawn_command(const Command& command) {
  XPURUN_TRY_ASSIGN(const std::string program, resolve_program(command.argv.at(0)));
  const auto pid = base::start_program({
      .path = program,
      .argv = command.argv,
      .env = command.env,
      .signal_mask = command.signal_mask,
      // Restored before the signal mask: a pending signal would otherwise meet the wrong disposition.
      .before_exec = [&command] { command.inherited.restore(); },
  });
  if (pid) {
    return *pid;
  }
  const int err = pid.error().sys_errno;
  base::Error e{.what = fmt::format("cannot run {}", base::shell_quote(command.argv.at(0))),
                .sys_errno = err};
  const bool limit = err == EMFILE || err == ENFILE || err == EAGAIN || err == ENOMEM;
  e.id = err == ENOENT ? base::kNotFound : (limit ? "E-LIMIT" : base::kNotExecutable);
  if (limit) {
    e.hint = "ulimit -a";
  }
  if (err == ENOENT) {
    e.cause = "the file exists, but the interpreter it names does not";
    e.hint = fmt::format("head -1 {}", base::shell_quote(program));
  }
  return base::fail(std::move(e));
}

}  // namespace xpurun::launcher
