// The name of this host. Dumps, runs and nodes are matched by this name, so every program of xpurun asks
// here.
#pragma once

#include <string>

namespace xpurun::base {

// "localhost" if the kernel has no name.
std::string host_name();

}  // namespace xpurun::base
