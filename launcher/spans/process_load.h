// ProcessLoad: the load that one process puts on the CPUs, and its waits for a CPU.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/timing/span.h"
#include "launcher/os/run_delay.h"
#include "launcher/processes/throttled_cpu.h"

#include <cstdint>
#include <optional>

namespace xpurun::launcher {

class ProcessLoad {
 public:
  explicit ProcessLoad(base::Pid pid, base::ProcFs proc = base::ProcFs())
      : pid_(pid), proc_(proc), delay_(pid, proc), throttled_(pid, std::move(proc)) {}

  // Nothing if the process has ended. Costs about 40 us and 5 us for each of the first 32 threads, and
  // every five seconds 15 us for each of the first 64 helpers. What the hypervisor takes is the host's, and
  // not in the sample.
  std::optional<model::LoadSample> sample(base::MonoNs now);

 private:
  int64_t helpers_bytes(base::MonoNs now);

  base::Pid pid_;
  base::ProcFs proc_;
  RunDelay delay_;
  ThrottledCpu throttled_;
  int64_t helpers_bytes_ = -1;
  base::MonoNs helpers_at_ = 0;  // when the helpers were looked at; 0: never
};

}  // namespace xpurun::launcher
