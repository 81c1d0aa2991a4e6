#include "report/operations/intervals.h"

#include <algorithm>

namespace xpurun::report {

std::vector<Interval> united(std::vector<Interval> intervals) {
  const auto by_begin = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_begin)) {
    std::sort(intervals.begin(), intervals.end(), by_begin);
  }
  size_t last = 0;  // index of the one that may still grow
  for (size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].begin <= intervals[last].end) {
      intervals[last].end = std::max(intervals[last].end, intervals[i].end);
    } else {
      intervals[++last] = intervals[i];
    }
  }
  intervals.resize(intervals.empty() ? 0 : last + 1);
  return intervals;
}

int64_t length_of(const std::vector<Interval>& set) {
  int64_t sum = 0;
  for (const Interval& one : set) {
    sum += one.end - one.begin;
  }
  return sum;
}

int64_t overlap_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t sum = 0;
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() && y != b.end()) {
    const int64_t from = std::max(x->begin, y->begin);
    const int64_t to = std::min(x->end, y->end);
    sum += std::max<int64_t>(to - from, 0);
    x->end < y->end ? ++x : ++y;
  }
  return sum;
}

}  // namespace xpurun::report
