// ProcessLoad: the load that one process puts on the CPUs, and its waits for a CPU.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/timing/span.h"
#include "launcher/spans/throttled_cpu.h"

#include <cstdint>
#include <map>
#include <optional>

namespace xpurun::launcher {

class ProcessLoad {
 public:
  explicit ProcessLoad(base::Pid pid, base::ProcFs proc = base::ProcFs())
      : pid_(pid), proc_(proc), throttled_(pid, std::move(proc)) {}

  // Nothing if the process has ended. Costs about 40 us and 5 us for each of the first 32 threads, and
  // every five seconds 15 us for each of the first 64 helpers. What the hypervisor takes is the host's, and
  // not in the sample.
  std::optional<model::LoadSample> sample(base::MonoNs now);

 private:
  int64_t run_delay();
  int64_t helpers_bytes(base::MonoNs now);

  base::Pid pid_;
  base::ProcFs proc_;
  std::map<base::Tid, uint64_t> delays_;  // of each thread, as last read
  int64_t run_delay_ = 0;                 // of all threads, ended ones too
  ThrottledCpu throttled_;
  int64_t helpers_bytes_ = -1;
  base::MonoNs helpers_at_ = 0;  // when the helpers were looked at; 0: never
};

}  // namespace xpurun::launcher
