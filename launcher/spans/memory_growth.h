// MemorySeries: the private memory of a rank and of its helpers over time, and whether it grows. A growth is
// a rise of the lowest values of successive windows, so that memory which is taken and given back is none.
// Pure, bounded memory.
#pragma once

#include "common/base/clock.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xpurun::launcher {

struct MemoryUse {
  base::MonoNs at_ns = 0;
  int64_t own_bytes = 0;
  int64_t helpers_bytes = 0;
  uint64_t steps = 0;  // that the rank has made; 0: unknown

  int64_t bytes() const { return own_bytes + helpers_bytes; }
};

class MemorySeries {
 public:
  struct Growth {
    MemoryUse from;
    MemoryUse to;  // the lowest of the latest window

    int64_t bytes() const { return to.bytes() - from.bytes(); }
    double bytes_per_s() const;
  };

  // In the order of time.
  void add(const MemoryUse& use);
  // The longest time up to now in which the memory has grown.
  std::optional<Growth> growth() const;
  size_t size() const { return kept_.size(); }

 private:
  void halve();

  std::vector<MemoryUse> kept_;  // each the lowest of `together_` samples
  MemoryUse lowest_;             // of the samples since then
  size_t pending_ = 0;
  size_t together_ = 1;
};

// The seconds until `limit_bytes` are in use; negative: never.
double seconds_to_limit(int64_t used_bytes, int64_t limit_bytes, double bytes_per_s);

}  // namespace xpurun::launcher
