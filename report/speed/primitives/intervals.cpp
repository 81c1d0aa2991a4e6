#include "report/speed/primitives/intervals.h"

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

std::vector<Interval> common_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  auto x = a.begin();
  auto y = b.begin();
  while (x != a.end() && y != b.end()) {
    const Interval both{std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (both.begin < both.end) {
      out.push_back(both);
    }
    x->end < y->end ? ++x : ++y;
  }
  return out;
}

int64_t overlap_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return length_of(common_of(a, b));
}

std::vector<Interval> difference_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> out;
  auto y = b.begin();
  for (const Interval& one : a) {
    int64_t from = one.begin;
    while (y != b.end() && y->end <= from) {
      ++y;
    }
    for (auto z = y; z != b.end() && z->begin < one.end; ++z) {
      if (z->begin > from) {
        out.push_back({from, z->begin});
      }
      from = std::max(from, z->end);
    }
    if (from < one.end) {
      out.push_back({from, one.end});
    }
  }
  return out;
}

}  // namespace xpurun::report
