// What the ranks read and write, and what network file systems needed for that: totals that never are a
// finding by themselves, but say which rank and which mount a slow loader or checkpoint is about.
#pragma once

#include "launcher/machine/host/host_files.h"
#include "launcher/machine/places.h"

#include <vector>

namespace xpurun::launcher {

// Bytes and calls of the ranks' own processes and of what they have started and waited for; /proc/PID/io.
void read_rank_io(const HostFiles& host, const std::vector<WatchedRank>& ranks, model::MachineReading& out);

// NFS by mount point, as the process `pid` sees the mounts: bytes, operations, and the time of all operations
// together, from the call to the answer; /proc/PID/mountstats.
void read_mount_io(const HostFiles& host, base::Pid pid, model::MachineReading& out);

}  // namespace xpurun::launcher
