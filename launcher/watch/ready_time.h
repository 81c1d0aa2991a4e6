// ReadyTime: for how long a thread has had a CPU or wanted one. The kernel counts the time in the queue of a
// CPU once the thread runs again or changes to another CPU, so that samples on a busy machine meet threads
// whose wait is not counted yet. Pure.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"

#include <algorithm>

namespace xpurun::launcher {

class ReadyTime {
 public:
  // One sample: the thread's state as in /proc, and its counted times. Returns these times with the wait that
  // goes on: a thread that is ready at two samples, and did not run between them, has waited for a CPU.
  base::ProcRunTime add(base::MonoNs now, char state, const base::ProcRunTime& counted) {
    const bool waits = state == 'R' && state_ == 'R' && counted.cpu_ns == ran_.cpu_ns && counted.cpu_ns > 0;
    state_ = state;
    if (!waits) {
      since_ = now;
      ran_ = counted;
    }
    const uint64_t queue_ns = ran_.queue_ns + static_cast<uint64_t>(now - since_);
    return {.cpu_ns = counted.cpu_ns, .queue_ns = std::max(counted.queue_ns, queue_ns)};
  }

 private:
  char state_ = '?';
  // The last sample before which the thread has run.
  base::MonoNs since_ = 0;
  base::ProcRunTime ran_;
};

}  // namespace xpurun::launcher
