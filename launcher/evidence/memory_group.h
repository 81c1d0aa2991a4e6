// The memory control group of a process, as the kernel shows it. In a container the kernel log may not be
// readable, but the group's counters are.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/run_manifest.h"

#include <cstdint>
#include <optional>
#include <string>

namespace xpurun::launcher {

// `oom_kills` counts from the creation of the group. Empty if the group or its counter cannot be read.
model::MemoryGroup read_memory_group(const base::ProcFs& proc, base::Pid pid,
                                     const std::string& root = "/sys/fs/cgroup");

// Memory that the processes of a host may still take.
struct MemoryRoom {
  std::string group;  // path of the control group whose limit is the nearest; empty: the host's own
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;

  int64_t left_bytes() const { return limit_bytes - used_bytes; }
};
// Of the group of `pid` or of the host, whichever has less left. Nothing if neither can be read.
std::optional<MemoryRoom> read_memory_room(const base::ProcFs& proc, base::Pid pid,
                                           const std::string& root = "/sys/fs/cgroup");

}  // namespace xpurun::launcher
