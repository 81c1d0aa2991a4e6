// What the event files of a rank add: arrivals at collectives and times of matmul shapes on the GPU.
#pragma once

#include "report/events/rank_record.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// Fills arrivals, holes, meets, shapes and launch_delays. `steps`: how many steps the rank had.
void add_events(const RankRecord& rank, size_t steps, RankSteps& out);

}  // namespace xpurun::report
