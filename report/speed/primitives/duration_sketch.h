// DurationSketch: how many durations were about how long, in bounded memory. Quantiles are exact to 1 %,
// and those of equal durations exact.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace xpurun::report {

class DurationSketch {
 public:
  // Nanoseconds; less than one counts as one, more than 2^42 (73 minutes) as that.
  void add(double ns);
  // All durations of another sketch.
  void add(const DurationSketch& other);

  uint64_t count() const { return count_; }
  double total_s() const { return total_ns_ * 1e-9; }
  // The duration in seconds below which the share `q` (0 to 1) of the durations lies; 0 if there are none.
  double quantile_s(double q) const;

 private:
  std::vector<uint32_t> buckets_;  // 64 from each power of two to the next
  uint64_t count_ = 0;
  double total_ns_ = 0;
  double shortest_ns_ = std::numeric_limits<double>::max();
  double longest_ns_ = 0;
};

}  // namespace xpurun::report
