#include "report/timeline/output/lanes.h"

#include <algorithm>

namespace xpurun::report {

LaneKind lanes_of(TrackKind kind) {
  return kind == TrackKind::python || kind == TrackKind::host ? LaneKind::nested : LaneKind::sequential;
}

bool Lanes::fits(const std::vector<int64_t>& open, int64_t begin_ns, int64_t end_ns) const {
  if (kind_ == LaneKind::sequential) {
    return open.empty() || open.back() <= begin_ns + kTrimmedNs;
  }
  // The innermost slice that is still open at the begin has to contain the new one. Ends go down towards the
  // innermost, which is mostly the one.
  const auto after =
      open.empty() || open.back() > begin_ns
          ? open.end()
          : std::partition_point(open.begin(), open.end(), [&](int64_t end) { return end > begin_ns; });
  return after == open.begin() || *(after - 1) >= end_ns;
}

Lanes::Place Lanes::put(int64_t begin_ns, int64_t end_ns) {
  ended_.clear();
  for (uint32_t lane = 0;; ++lane) {
    if (lane == open_.size()) {
      open_.emplace_back();
    }
    std::vector<int64_t>& open = open_[lane];
    const bool fitting = fits(open, begin_ns, end_ns);
    if (!fitting && lane + 1 < kMostLanes) {
      continue;
    }
    bool trimmed = false;
    while (!open.empty() && (kind_ == LaneKind::sequential || !fitting || open.back() <= begin_ns)) {
      trimmed = trimmed || open.back() > begin_ns;
      ended_.push_back(std::min(open.back(), begin_ns));
      open.pop_back();
    }
    open.push_back(end_ns);
    return {lane, trimmed, ended_};
  }
}

std::vector<int64_t> Lanes::take_open(uint32_t lane) {
  std::vector<int64_t> out(open_[lane].rbegin(), open_[lane].rend());
  open_[lane].clear();
  return out;
}

}  // namespace xpurun::report
