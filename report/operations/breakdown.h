// How a rank's GPU spent its time, as far as the timed calls show it. Pure.
#pragma once

#include "common/model/speed/operations.h"
#include "report/speed/primitives/intervals.h"

#include <array>
#include <cstdint>
#include <vector>

namespace xpurun::report {

enum class WorkKind : uint8_t { compute, communication, memory };

// The timed calls of a rank on its GPU.
struct TimedWork {
  struct Part {
    std::vector<Interval> intervals;  // of the timed calls, in ns, in any order
    double timed = 0;                 // number of timed calls
    double calls = 0;                 // of all calls meanwhile; equals `timed` where that is unknown
    double estimated_s = 0;           // GPU time of all calls
  };
  std::array<Part, 3> parts;   // by WorkKind
  double untraced_s = 0;       // part of the estimated time of compute
  bool numbers_known = false;  // some calls were numbered
  bool in_place = true;        // the begin of every interval is GPU time, and no event was lost
};

// window_s is 0 if there was no timed call.
model::RankBreakdown breakdown_of(TimedWork work);

}  // namespace xpurun::report
