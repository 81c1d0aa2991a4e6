// How long the host of a rank needs for a step if its GPU never holds it. A rank whose GPU waits for another
// rank loses nothing by that, as long as its own host is not ready either.
#pragma once

#include "report/speed/steps/rank_steps.h"

#include <cstdint>

namespace xpurun::report {

// At least, in ns: the time of the step in which no thread of the process used a CPU, because PyTorch uses one
// while it waits for a GPU. 0: nothing is known, such as without a GPU, or of JAX, which waits without a CPU.
int64_t host_pace_ns(const RankSteps& rank, const StepRecord& step);

}  // namespace xpurun::report
