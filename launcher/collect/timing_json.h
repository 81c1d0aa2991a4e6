// timing.json, schema "xpurun.timing/1": the content of all ranks' segments at one moment. Written at every
// dump and at the end of a run.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

std::string timing_json(const std::vector<RankTiming>& ranks, base::MonoNs now);

}  // namespace xpurun::launcher
