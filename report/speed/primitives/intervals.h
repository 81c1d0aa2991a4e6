// Sets of moments as intervals. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace xpurun::report {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;  // not before begin

  bool operator==(const Interval&) const = default;
};

// The same moments as intervals that are in order and do not touch.
std::vector<Interval> united(std::vector<Interval> intervals);
// The following take united intervals.
int64_t length_of(const std::vector<Interval>& set);
// The moments that are in both, and their length.
std::vector<Interval> common_of(const std::vector<Interval>& a, const std::vector<Interval>& b);
int64_t overlap_of(const std::vector<Interval>& a, const std::vector<Interval>& b);
// The moments of `a` that are not in `b`.
std::vector<Interval> difference_of(const std::vector<Interval>& a, const std::vector<Interval>& b);

}  // namespace xpurun::report
