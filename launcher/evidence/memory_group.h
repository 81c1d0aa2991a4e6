// The memory control group of a process, as the kernel shows it. In a container the kernel log may not be
// readable, but the group's counters are.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/run_manifest.h"

#include <string>

namespace xpurun::launcher {

// `oom_kills` counts from the creation of the group. Empty if the group or its counter cannot be read.
model::MemoryGroup read_memory_group(const base::ProcFs& proc, base::Pid pid,
                                     const std::string& root = "/sys/fs/cgroup");

}  // namespace xpurun::launcher
