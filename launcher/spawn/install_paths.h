// Where our own parts are: beside the running program in an installed tree, a bundle or a build directory.
// Nothing is looked up through the environment.
#pragma once

#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

// The running xpurun program itself.
base::Result<std::string> own_program();
base::Result<std::string> preload_library();
base::Result<std::string> stackdump_program();

}  // namespace xpurun::launcher
