// RunLock: a supervisor's mark on its run directory: an flock(2) on the directory itself, gone with the
// process however it ends. Seen in other PID namespaces of the host too, where a pid says nothing.
#pragma once

#include "common/base/fd.h"
#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

class RunLock {
 public:
  // A file system without locks gives an error: the run goes on without.
  static base::Result<RunLock> take(const std::string& run_dir);
  // Somebody holds it. False also where it cannot be told.
  static bool held(const std::string& run_dir);

 private:
  explicit RunLock(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::UniqueFd fd_;
};

}  // namespace xpurun::launcher
