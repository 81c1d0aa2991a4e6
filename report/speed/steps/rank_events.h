// What the event files of a rank add: arrivals at collectives and times of matmul shapes on the GPU.
#pragma once

#include "report/speed/primitives/rank_input.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// Fills arrivals, holes, meets, shapes and launch_delays. `steps`: how many steps the rank had.
void add_events(const RankInput& rank, size_t steps, RankSteps& out);
// A number for the collective `sequence` of a group.
uint64_t collective_key(uint64_t group, uint64_t sequence);

}  // namespace xpurun::report
