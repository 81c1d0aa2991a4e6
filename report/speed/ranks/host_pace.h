// How long the host of a rank needs for a step if its GPU never holds it. A rank whose GPU waits for another
// rank loses nothing by that, as long as its own host is not ready either.
#pragma once

#include "report/speed/steps/rank_steps.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// By step of the rank, in ns, at most the duration of the step; 0: nothing is known. In blocks of steps, the
// usual duration of the host's steps where they are shorter than those of the GPU, else the time in which no
// thread of the process used a CPU: PyTorch uses one while it waits for a GPU. Empty for a rank without a GPU,
// and where the waits of the host are not known to use a CPU (JAX).
std::vector<int64_t> host_pace(const RankSteps& rank);

}  // namespace xpurun::report
