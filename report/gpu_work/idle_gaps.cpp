#include "report/gpu_work/idle_gaps.h"

#include <algorithm>
#include <limits>

namespace xpurun::report {

IdleGaps idle_gaps(const RecordedWork& work, int64_t until, size_t most, std::span<const int64_t> step_ends) {
  IdleGaps out;
  const std::vector<GpuWork>& works = work.works;
  if (works.empty()) {
    return out;
  }
  // The earliest launch of the work that begins then or later.
  std::vector<int64_t> launched(works.size());
  int64_t earliest = std::numeric_limits<int64_t>::max();
  for (size_t i = works.size(); i-- > 0;) {
    earliest = std::min(earliest, works[i].launch);
    launched[i] = earliest;
  }
  out.begin = works.front().begin;
  int64_t busy_until = out.begin;
  uint32_t last = works.front().name;
  int64_t last_launch = works.front().launch;
  for (size_t i = 0; i < works.size() && works[i].begin < until; ++i) {
    const GpuWork& w = works[i];
    ++out.works;
    if (w.begin > busy_until) {
      const int64_t ready = std::clamp(launched[i] > w.begin - kLaunchNs ? w.begin : launched[i] + kLaunchNs,
                                       busy_until, w.begin);
      const Gap gap{busy_until, w.begin, w.begin - ready, last, w.name};
      out.idle += gap.length();
      out.kernel_wait += gap.kernel_wait;
      const auto ended = std::upper_bound(step_ends.begin(), step_ends.end(), last_launch);
      out.between_steps += ended != step_ends.end() && *ended <= w.launch ? gap.length() : 0;
      out.longest.push_back(gap);
    }
    if (w.end >= busy_until) {
      busy_until = w.end;
      last = w.name;
      last_launch = w.launch;
    }
  }
  out.end = std::min(until, busy_until);
  const auto longer = [](const Gap& a, const Gap& b) {
    return a.length() != b.length() ? a.length() > b.length() : a.begin < b.begin;
  };
  const size_t kept = std::min(most, out.longest.size());
  std::partial_sort(out.longest.begin(), out.longest.begin() + static_cast<std::ptrdiff_t>(kept),
                    out.longest.end(), longer);
  out.longest.resize(kept);
  return out;
}

}  // namespace xpurun::report
