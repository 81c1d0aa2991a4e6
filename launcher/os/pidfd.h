// Pidfd: a handle on one process. A reused pid cannot make it mean another process. Readable (epoll) when the
// process has ended.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"

namespace xpurun::launcher {

class Pidfd {
 public:
  Pidfd() = default;
  // Needs Linux 5.3.
  static base::Result<Pidfd> open(base::Pid pid);

  int fd() const { return fd_.get(); }
  base::Pid pid() const { return pid_; }
  explicit operator bool() const { return fd_.valid(); }

  // Fails with ESRCH once the process has been reaped.
  base::Status send_signal(int signal) const;

  // Wait status of an ended process that is no child of ours, or -1. Works until its parent has reaped it
  // (the zombie's /proc/PID/stat) and, on Linux 6.15 and later, afterwards (PIDFD_GET_INFO).
  base::WaitStatus wait_status_of_stranger() const;

 private:
  base::UniqueFd fd_;
  base::Pid pid_ = 0;
};

// Reaps a child that is about to end: it would stay a zombie where process 1 does not reap. Blocks for at
// most this time; a child that needs longer is left to process 1.
void reap_soon(base::Pid pid, double seconds);

}  // namespace xpurun::launcher
