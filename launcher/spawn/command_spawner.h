// Starts the user's command, and explains why the command cannot be started.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/spawn/inherited_state.h"

#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct Command {
  std::vector<std::string> argv;  // argv[0] as the user typed it
  std::vector<std::string> env;   // NAME=VALUE
  sigset_t signal_mask{};         // signal mask of the command
  InheritedState inherited;       // other attributes restored for the command
};

// The file that execvp(3) would run for argv[0]. Fails with ENOENT (exit status 127) or EACCES (126).
base::Result<std::string> resolve_program(const std::string& name);

// Standard streams, working directory, process group and limits are inherited. The caller reaps the child.
base::Result<base::Pid> spawn_command(const Command& command);

}  // namespace xpurun::launcher
