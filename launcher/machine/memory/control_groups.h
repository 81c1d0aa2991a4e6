// The memory of control groups, and of the host.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/machine/cpu/watched_rank.h"
#include "launcher/machine/host/host_files.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The path of a group in the text of /proc/PID/cgroup, lines "4:memory:/job" and "0::/job". `controllers`: as
// they stand between the colons, none for the unified hierarchy. Empty: no such line.
std::string control_group_path(std::string_view cgroup, std::string_view controllers);

struct ControlGroup {
  std::string path;       // "/job"
  std::string directory;  // "fs/cgroup/job", below /sys
  bool unified = false;   // of version 2
  int64_t limit_bytes = 0;
};
// The group that counts the memory of `pid`; nothing if it cannot be read.
std::optional<ControlGroup> memory_control_group(const HostFiles& host, base::Pid pid);
// It, or the group around it that has the smallest limit. Nothing if no limit is below `memory`, that of the
// host.
std::optional<ControlGroup> limiting_group(const HostFiles& host, base::Pid pid, int64_t memory);

struct GroupMemory {
  int64_t processes = 0;  // that belongs to no file
  int64_t cache = 0;      // of files on disks
  int64_t shared = 0;     // shared memory and files in memory
};
// Nothing if the kernel does not count it.
std::optional<GroupMemory> group_memory(const HostFiles& host, const ControlGroup& group);

struct MemoryOfHost {
  int64_t total = 0;
  int64_t available = 0;
  int64_t shared = 0;
};
MemoryOfHost host_memory(const HostFiles& host);

// What the group of a process says without the kernel log, which a container may not read. `oom_kills` counts
// from the creation of the group. Empty if the group or its counter cannot be read.
model::MemoryGroup read_memory_group(const HostFiles& host, base::Pid pid);

// Memory that the processes of a host may still take.
struct MemoryRoom {
  std::string group;  // path of the control group whose limit is the nearest; empty: the host's own
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;

  int64_t left_bytes() const { return limit_bytes - used_bytes; }
};
// Of the group of `pid` (or the one around it that limits it) or of the host, whichever has less left.
// Nothing if neither can be read.
std::optional<MemoryRoom> read_memory_room(const HostFiles& host, base::Pid pid);

// The memory of the control groups of the ranks, and what the kernel killed in them.
void read_group_memory(const HostFiles& host, const std::vector<WatchedRank>& ranks,
                       model::MachineReading& out);

}  // namespace xpurun::launcher
