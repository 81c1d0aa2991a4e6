// Ends of steps in numbered calls of a GPU, of which only some were timed: the collectives of a communicator,
// or the replays of a CUDA graph. Times between two timed calls are interpolated.
#pragma once

#include "report/events/rank_record.h"
#include "report/speed/steps/found_ends.h"

namespace xpurun::report {

// A sequence of collectives that repeats itself; one of equal calls shows no steps.
StepEnds from_collectives(const RankRecord& rank);
// The replays of the CUDA graph on which the GPU spends most time: each is a step.
StepEnds from_replays(const RankRecord& rank);

}  // namespace xpurun::report
