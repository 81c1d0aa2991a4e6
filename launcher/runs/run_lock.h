// RunLock: marks a run directory as live by an flock(2) on the directory itself. The kernel releases the lock
// when the process ends for any reason. The lock is visible from other PID namespaces of the host, where a
// pid means nothing.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

class RunLock {
 public:
  // Fails on a file system without locks; the run continues without a lock.
  static base::Result<RunLock> take(const std::string& run_dir);
  // Whether a process holds the lock. Also false if the lock cannot be checked.
  static bool held(const std::string& run_dir);

 private:
  explicit RunLock(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::UniqueFd fd_;
};

}  // namespace xpurun::launcher
