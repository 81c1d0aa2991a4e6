// What the checks of `xpurun doctor` know about the request, found out once. Plain data.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

struct ProgramOfCommand {
  std::string path;                // the file that would be executed; empty if there is none
  std::vector<std::string> chain;  // path, its interpreter if it is a script, that one's, ...
};

struct DoctorContext {
  std::vector<std::string> command;  // empty: none was given
  ProgramOfCommand program;
  std::string runs_dir = "xpurun-runs";
};

// Follows "#!" lines, `env NAME` included, at most a few deep.
ProgramOfCommand program_of(const std::vector<std::string>& command);

}  // namespace xpurun::launcher
