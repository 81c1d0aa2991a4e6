// DurationSketch: how many durations were about how long, in bounded memory. Quantiles are exact to 1 %.
#pragma once

#include <cstdint>
#include <vector>

namespace xpurun::report {

class DurationSketch {
 public:
  // Nanoseconds; less than one counts as one, more than 2^42 (73 minutes) as that.
  void add(double ns);

  uint64_t count() const { return count_; }
  double total_s() const { return total_ns_ * 1e-9; }
  // The duration in seconds below which the share `q` (0 to 1) of the durations lies; 0 if there are none.
  double quantile_s(double q) const;

 private:
  std::vector<uint32_t> buckets_;  // 64 from each power of two to the next
  uint64_t count_ = 0;
  double total_ns_ = 0;
};

}  // namespace xpurun::report
