#include "report/query/nesting.h"

#include <algorithm>

namespace xpurun::report {

namespace {

bool nests(const Call& call) {
  return call.category == Category::python && call.stage != model::Stage::forward &&
         call.stage != model::Stage::evaluation && call.stage != model::Stage::mark;
}

}  // namespace

Nesting::Nesting(const Activity& activity)
    : parents_(activity.slices.size(), kNone), self_ns_(activity.slices.size()) {
  std::vector<std::vector<uint32_t>> open(activity.tracks.size());  // by track, the innermost last
  for (uint32_t i = 0; i < activity.slices.size(); ++i) {
    const Slice& slice = activity.slices[i];
    self_ns_[i] += slice.duration_ns;
    if (!nests(activity.calls[slice.call])) {
      continue;
    }
    std::vector<uint32_t>& outer = open[slice.track];
    while (!outer.empty() && activity.slices[outer.back()].end_ns() <= slice.begin_ns) {
      outer.pop_back();
    }
    if (!outer.empty()) {
      parents_[i] = outer.back();
      const int64_t until = std::min(slice.end_ns(), activity.slices[outer.back()].end_ns());
      self_ns_[outer.back()] -= until - slice.begin_ns;
    }
    outer.push_back(i);
  }
}

}  // namespace xpurun::report
