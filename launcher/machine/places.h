// Where the ranks may run, and where their GPUs and network adapters are.
#pragma once

#include "launcher/machine/host_files.h"

#include <vector>

namespace xpurun::launcher {

struct WatchedRank {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  friend bool operator==(const WatchedRank&, const WatchedRank&) = default;
};

// Nothing for a process that has ended.
void read_places(const HostFiles& host, const std::vector<WatchedRank>& ranks, model::MachineReading& out);

}  // namespace xpurun::launcher
