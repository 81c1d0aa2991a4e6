// The steps of one rank, which its host has seen, on the step clock.
#pragma once

#include "report/events/rank_record.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// Sets begin, duration and lead of the steps, whose host times and stages are known; drops the last steps if
// nothing tells when the GPU ended them. `by_host`: the ends of the steps are times of the host.
void put_clock(const RankRecord& rank, bool by_host, RankSteps& steps);

}  // namespace xpurun::report
