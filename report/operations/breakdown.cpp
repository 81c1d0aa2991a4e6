#include "report/operations/breakdown.h"

#include <algorithm>
#include <limits>

namespace xpurun::report {

namespace {

constexpr double kNearlyAll = 0.95;  // of the calls

double seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

model::RankBreakdown breakdown_of(TimedWork work) {
  model::RankBreakdown out;
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  double timed = 0;
  double calls = 0;
  double busy_s = 0;
  for (TimedWork::Part& part : work.parts) {
    part.intervals = united(std::move(part.intervals));
    if (!part.intervals.empty()) {
      first = std::min(first, part.intervals.front().begin);
      last = std::max(last, part.intervals.back().end);
    }
    timed += part.timed;
    calls += part.calls;
    busy_s += part.estimated_s;
  }
  if (last <= first) {
    return out;
  }
  const auto& [compute, communication, memory] = work.parts;
  out.window_s = seconds(last - first);
  out.timed_share = work.numbers_known && calls > 0 ? std::min(timed / calls, 1.0) : -1;
  out.untraced_share = work.numbers_known && busy_s > 0 ? work.untraced_s / busy_s : -1;
  out.exact = work.in_place && out.timed_share >= kNearlyAll;
  out.compute_s = compute.estimated_s;
  out.communication_s = communication.estimated_s;
  out.memory_s = memory.estimated_s;
  const int64_t communicating = length_of(communication.intervals);
  if (communicating > 0 && work.in_place) {
    const int64_t hidden = overlap_of(communication.intervals, compute.intervals);
    out.exposed_share = static_cast<double>(communicating - hidden) / static_cast<double>(communicating);
  }
  if (out.exact) {
    out.compute_s = seconds(length_of(compute.intervals));
    out.communication_s = seconds(communicating);
    out.memory_s = seconds(length_of(memory.intervals));
    std::vector<Interval> any = compute.intervals;
    any.insert(any.end(), communication.intervals.begin(), communication.intervals.end());
    any.insert(any.end(), memory.intervals.begin(), memory.intervals.end());
    out.idle_s = out.window_s - seconds(length_of(united(std::move(any))));
  }
  return out;
}

}  // namespace xpurun::report
