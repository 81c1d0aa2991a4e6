// Where the ranks may run, and where their GPUs and network adapters are.
#pragma once

#include "launcher/machine/cpu/watched_rank.h"
#include "launcher/machine/host/host_files.h"

#include <vector>

namespace xpurun::launcher {

// Nothing for a process that has ended.
void read_places(const HostFiles& host, const std::vector<WatchedRank>& ranks, model::MachineReading& out);

}  // namespace xpurun::launcher
