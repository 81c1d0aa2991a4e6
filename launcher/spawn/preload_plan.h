// Decides how the preload library gets into the command's environment: by which path, or not at all, and with
// which message to the user.
#pragma once

#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct PreloadPlan {
  std::string path;          // for LD_PRELOAD; empty: without the library
  std::string reason;        // why the library is left out or limited in the command itself; empty: no limit
  bool is_reported = false;  // print the reason at the start
};

// `program` is the file that will be executed, or empty; `env` is the command's environment without xpurun's
// variables.
PreloadPlan plan_preload(const std::string& library, const std::string& program,
                         const std::vector<std::string>& env);

// A path of `library` that LD_PRELOAD can hold: ld.so splits the variable at spaces and colons, expands "$"
// and has no quoting (ld.so(8)). Returns the path itself if possible, else a symbolic link in a private
// directory below `directory`. The link stays: processes that outlive the run start others with the same
// LD_PRELOAD.
base::Result<std::string> preloadable_path(const std::string& library, const std::string& directory);

// $XDG_RUNTIME_DIR if it is set, else /tmp.
std::string directory_for_links();

}  // namespace xpurun::launcher
