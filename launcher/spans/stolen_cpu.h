// StolenCpu: the time that the hypervisor took from the CPUs of this host: `steal` in /proc/stat.
#pragma once

#include "common/base/clock.h"
#include "launcher/os/cpu_ticks.h"

#include <cstdint>
#include <optional>
#include <string>

namespace xpurun::launcher {

class StolenCpu {
 public:
  explicit StolenCpu(const std::string& proc = "/proc") : file_(proc + "/stat") {}

  // Nanoseconds since the first call in which a thread that had a CPU did not run: the time that passed,
  // times the share of stolen time in the time that the CPUs had work. Negative: the kernel does not count.
  // Reads the file once a second at most, however many ranks ask.
  int64_t sample(base::MonoNs now);

 private:
  std::string file_;
  std::optional<CpuTicks> ticks_;  // empty: unknown
  base::MonoNs at_ = 0;
  bool begun_ = false;
  int64_t total_ns_ = 0;
};

}  // namespace xpurun::launcher
