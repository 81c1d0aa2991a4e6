// ThrottledCpu: how long the CPU limit of a process's control groups (a container's `cpu` limit) kept the
// process from running.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::launcher {

class ThrottledCpu {
 public:
  // `cgroups`: where the control groups are mounted, of version 2 or 1.
  explicit ThrottledCpu(base::Pid pid, base::ProcFs proc = base::ProcFs(),
                        std::string cgroups = "/sys/fs/cgroup")
      : pid_(pid), proc_(std::move(proc)), cgroups_(std::move(cgroups)) {}

  // Nanoseconds since the first call; negative: the control groups do not count. Costs about 10 us for each
  // group from the process's own to the root, and once a second as much for their names.
  int64_t sample(base::MonoNs now);

 private:
  // A group that counts.
  struct Level {
    std::string directory;
    uint64_t throttled_periods = 0;
    int64_t throttled_ns = 0;  // of all CPUs together
  };

  // Finds the levels of the control groups that the process is in now, as it may be moved. False: as before.
  bool find_levels(base::MonoNs now);
  static bool read(Level& level);
  static int64_t period_ns(const Level& level);

  base::Pid pid_;
  base::ProcFs proc_;
  std::string cgroups_;
  std::string memberships_;  // /proc/PID/cgroup
  base::MonoNs looked_at_ = 0;
  std::vector<Level> levels_;
  base::MonoNs at_ = 0;
  int64_t total_ns_ = 0;
};

}  // namespace xpurun::launcher
