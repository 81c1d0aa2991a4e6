// The traces that --timeline asks for: "first:10", "first:2s", "steps:100-110+host", "every:10m". Pure.
#pragma once

#include "common/base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct TimelineSpec {
  enum class Kind {
    steps,  // from the step `first` to the step `last`
    every,  // a few steps every `every_s` seconds
  };
  Kind kind = Kind::steps;
  uint64_t first = 1;  // from 1; 1 begins when the first rank uses a GPU
  uint64_t last = 0;
  double first_s = 0;  // of first:DURATION, instead of the step `last`; 0: none
  double every_s = 0;
  bool host = false;  // also the host's time of every hooked call, for flows from calls to their work
  std::string text;   // as given: "steps:100-110"

  bool operator==(const TimelineSpec&) const = default;
};

// Of one trace.
inline constexpr uint64_t kMostTimelineSteps = 10'000;
// Between two traces of every:T.
inline constexpr double kShortestEveryS = 10;
// Of first:DURATION.
inline constexpr double kLongestFirstS = 600;

// `list` has entries separated by commas. Entries with steps come in order; the entry every:T is last. An
// error names the first wrong entry. Steps of two entries must not overlap, because there is one trace at a
// time.
base::Result<std::vector<TimelineSpec>> timeline_specs(std::string_view list);

}  // namespace xpurun::launcher
