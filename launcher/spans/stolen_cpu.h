// StolenCpu: the time that the hypervisor took from the CPUs of this host: `steal` in /proc/stat.
#pragma once

#include "common/base/clock.h"

#include <cstdint>
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
  struct Ticks {
    uint64_t busy = 0;  // with the stolen ones
    uint64_t stolen = 0;
    bool known = false;
  };
  static Ticks ticks_in(const std::string& stat);

  std::string file_;
  Ticks ticks_;
  base::MonoNs at_ = 0;
  bool begun_ = false;
  int64_t total_ns_ = 0;
};

}  // namespace xpurun::launcher
