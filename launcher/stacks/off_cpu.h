// OffCpu: why the threads of a process are not on a CPU, at the moments of a recording: a futex, a file, a
// page fault, the run queue, the CPU limit of a container. From /proc; stops nothing. Not thread-safe.
#pragma once

#include "common/base/clock.h"
#include "launcher/processes/throttled_cpu.h"
#include "stackdump/native/kernel_view.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// The kernel does not distinguish a thread that runs and one that is ready to run: as many of these samples
// wait in the run queue as the scheduler has counted.
class ReadySamples {
 public:
  // The numbers of a schedstat file at the moment of a sample. True: the sample counts as waiting.
  bool waits(base::MonoNs now, uint64_t cpu_ns, uint64_t queue_ns);
  // The same for a sample that is off the CPU anyway.
  void skip(base::MonoNs now, uint64_t cpu_ns, uint64_t queue_ns);

 private:
  bool known_ = false;
  uint64_t cpu_ns_ = 0;
  uint64_t queue_ns_ = 0;
  base::MonoNs changed_ = 0;
  double carry_ = 0.5;  // of a sample that waits
};

// "futex", "io: read", "page fault", "sleep", "wait: epoll_wait", "stopped". Empty: on a CPU or ready to run.
std::string off_cpu_reason(const stackdump::KernelView& view);

class OffCpu {
 public:
  explicit OffCpu(base::Pid pid, base::ProcFs proc = base::ProcFs())
      : pid_(pid), proc_(proc), throttled_(pid, std::move(proc)) {}

  // Empty: on a CPU. `tid` 0: "unknown".
  std::string reason(base::Tid tid, base::MonoNs now);

 private:
  base::Pid pid_;
  base::ProcFs proc_;
  ThrottledCpu throttled_;
  int64_t throttled_ns_ = 0;
  std::map<base::Tid, ReadySamples> threads_;
};

}  // namespace xpurun::launcher
