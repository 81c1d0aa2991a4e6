// Lanes: distributes the slices of a track over rows on which they nest or follow each other, as traces need.
#pragma once

#include "report/events/activity.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// How slices of a row may lie.
enum class LaneKind {
  nested,      // a slice may lie inside another: functions of a thread
  sequential,  // a slice begins after the end of the one before: work of a stream
};

LaneKind lanes_of(TrackKind kind);

// Rows of a track. What overlaps on more rows, in a damaged file only, ends earlier slices of the last row
// early.
inline constexpr uint32_t kMostLanes = 256;

// An overlap up to this length is an inaccuracy of the clocks: the earlier slice is shown shorter.
inline constexpr int64_t kTrimmedNs = 2'000;

class Lanes {
 public:
  explicit Lanes(LaneKind kind) : kind_(kind) {}

  struct Place {
    uint32_t lane = 0;
    bool trimmed = false;  // an earlier slice is shown shorter
    // Times of slices that end before this one begins, innermost first: valid until the next call.
    const std::vector<int64_t>& ended;
  };
  // Slices in order of their begins. The ends of earlier slices of the same lane are given back once, when
  // the next slice of that lane begins.
  Place put(int64_t begin_ns, int64_t end_ns);
  // The remaining ends of a lane, innermost first.
  std::vector<int64_t> take_open(uint32_t lane);
  uint32_t size() const { return static_cast<uint32_t>(open_.size()); }

 private:
  bool fits(const std::vector<int64_t>& open, int64_t begin_ns, int64_t end_ns) const;

  LaneKind kind_;
  std::vector<std::vector<int64_t>> open_;  // of each lane, the ends of its open slices, innermost last
  std::vector<int64_t> ended_;
};

}  // namespace xpurun::report
