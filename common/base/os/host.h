// The name of this host. Dumps, runs and nodes are matched by it, so every program of ours asks here.
#pragma once

#include <string>

namespace xpurun::base {

// "localhost" if the kernel has no name.
std::string host_name();

}  // namespace xpurun::base
