// What traces do not hold, as trace.json says.
#pragma once

#include "common/model/rank_set.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Lines: "traces/1: ranks 2-3: 0 of 1000 calls in 60 s". `manifests`: paths of trace.json; `ranks`: those
// that are asked for, empty: all. Ranks of the run that a trace does not name had no timing, or did not run,
// when it began.
std::vector<std::string> trace_gaps(const std::vector<std::string>& manifests, const model::RankSet& ranks);

}  // namespace xpurun::report
