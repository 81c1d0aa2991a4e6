// A rank of this node, and the CPUs that it may use.
#pragma once

#include "common/base/os/procfs.h"

#include <string>

namespace xpurun::launcher {

struct WatchedRank {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  friend bool operator==(const WatchedRank&, const WatchedRank&) = default;
};

// "0-3"; empty if the process has ended.
std::string allowed_cpus(const base::ProcFs& proc, base::Pid pid);

}  // namespace xpurun::launcher
