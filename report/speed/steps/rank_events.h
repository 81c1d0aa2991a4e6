// What the event files of a rank add: arrivals at collectives and times of matmul shapes on the GPU.
#pragma once

#include "report/speed/rank_input.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// Fills arrivals, shapes and launch_delay_s.
void add_events(const RankInput& rank, RankSteps& out);
// A number for the collective `sequence` of a group.
uint64_t collective_key(uint64_t group, uint64_t sequence);

}  // namespace xpurun::report
