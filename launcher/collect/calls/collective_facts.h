// The ledgers of NCCL's calls as collective facts, the form that the diagnosis reads. Pure.
#pragma once

#include "common/model/collectives.h"
#include "launcher/collect/rank_timing.h"

#include <vector>

namespace xpurun::launcher {

// Leaves out processes without a rank, and ranks without a communicator in use. `now`: time of the dump,
// CLOCK_MONOTONIC.
model::CollectiveFacts collective_facts(const std::vector<RankTiming>& ranks, base::MonoNs now);

}  // namespace xpurun::launcher
