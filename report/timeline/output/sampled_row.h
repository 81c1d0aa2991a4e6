// The row of a rank that marks times in which not every GPU call is timed.
#pragma once

#include "report/events/activity.h"

namespace xpurun::report {

// Apart from the numbers of streams and of threads (4,194,304 at most).
inline constexpr uint32_t kSampledRow = 1 << 23;

inline bool is_sampled_row(const Track& track) {
  return track.kind == TrackKind::host && track.number == kSampledRow;
}

}  // namespace xpurun::report
