// Keeps the cost of light timing below the budget: doubles the sampling period while we cost too much and
// halves it when we cost less than half of what we may. The poller's alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class Budget {
 public:
  // `own_ns` is the cost since the process began; `ppm` the most of wall time that may go there.
  // Returns the sampling period to use from now on.
  uint32_t update(uint64_t now_ns, uint64_t own_ns, uint32_t ppm);

 private:
  static constexpr uint64_t kWindowNs = 100'000'000;
  static constexpr uint32_t kLongest = 1u << 16;

  uint64_t window_began_ns_ = 0;
  uint64_t own_at_begin_ns_ = 0;
  uint32_t period_ = 1;
};

}  // namespace xpurun::preload
