// How the preload library is put into the command's environment: by which path, or not at all, and what has
// to be said about that.
#pragma once

#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct PreloadPlan {
  std::string path;      // for LD_PRELOAD; empty: the library stays out
  std::string reason;    // why it is out or limited in the command itself; empty if nothing is lost
  bool is_told = false;  // the reason is worth a line at the start
};

// `program` is the file that will be executed, or empty; `env` is the command's environment without our
// variables.
PreloadPlan plan_preload(const std::string& library, const std::string& program,
                         const std::vector<std::string>& env);

// A path of `library` that LD_PRELOAD can hold: ld.so splits the variable at spaces and colons, expands "$"
// and knows no quoting (ld.so(8)). The path itself if it can, else a symbolic link in a private directory
// below `directory`. The link stays: processes that outlive the run start others with the same LD_PRELOAD.
base::Result<std::string> preloadable_path(const std::string& library, const std::string& directory);

// $XDG_RUNTIME_DIR if it is set, else /tmp.
std::string directory_for_links();

}  // namespace xpurun::launcher
