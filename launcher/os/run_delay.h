// RunDelay: the time for which the threads of a process were ready to run and had no CPU, from
// /proc/PID/task/TID/schedstat. Not thread-safe.
#pragma once

#include "common/base/os/procfs.h"

#include <cstdint>
#include <map>
#include <optional>

namespace xpurun::launcher {

class RunDelay {
 public:
  explicit RunDelay(base::Pid pid, base::ProcFs proc = base::ProcFs()) : pid_(pid), proc_(std::move(proc)) {}

  struct Look {
    int64_t all_ns = 0;    // of all threads together, ended ones too, since the first look
    int64_t worst_ns = 0;  // since the look before, of the thread that waited longest
  };
  // Nothing if the process has ended, or if the kernel does not count. Costs 5 us for each of the first 32
  // threads. The whole past of a thread counts at the look that sees the thread first, but not as the worst.
  std::optional<Look> look();

 private:
  base::Pid pid_;
  base::ProcFs proc_;
  std::map<base::Tid, uint64_t> delays_;  // of each thread, as last read
  int64_t all_ns_ = 0;
};

}  // namespace xpurun::launcher
