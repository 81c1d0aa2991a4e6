// How durations are spread, by rank: rows for pictures. Pure.
#pragma once

#include "common/model/speed/operations.h"

#include <vector>

namespace xpurun::report {

// Of the durations of a rank in seconds. Reorders them; count 0 if there are none.
model::RankDurations rank_durations(base::Rank rank, std::vector<double>& seconds);

inline constexpr size_t kMostDurationRanks = 32;
// Keeps the ranks whose medians differ most from the usual one, in the order of the ranks.
void keep_unusual(std::vector<model::RankDurations>& ranks);

}  // namespace xpurun::report
