// The facts about the request that the checks of `xpurun doctor` share. Plain data.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

struct ProgramOfCommand {
  std::string path;  // the file that would be executed; empty if there is none
  std::vector<std::string>
      chain;  // path, the interpreter of a script, the interpreter's own interpreter, ...
};

struct DoctorContext {
  std::vector<std::string> command;  // empty: no command given
  ProgramOfCommand program;
  std::string runs_dir = "xpurun-runs";
};

// Follows "#!" lines, `env NAME` included, at most a few deep.
ProgramOfCommand program_of(const std::vector<std::string>& command);

}  // namespace xpurun::launcher
