// Paths of xpurun's own parts, relative to the running program in an installed tree, a bundle or a build
// directory. The environment is not consulted.
#pragma once

#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

// The running xpurun program itself.
base::Result<std::string> own_program();
base::Result<std::string> preload_library();
base::Result<std::string> stackdump_program();
// The helper that connects to the other nodes of the job.
base::Result<std::string> nodes_program();
// job.py of `xpurun selftest`; the files that it imports are beside it.
base::Result<std::string> selftest_job();

}  // namespace xpurun::launcher
