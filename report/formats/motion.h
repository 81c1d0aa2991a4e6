// Compares several samples of the same processes. A thread with equal frames in all samples is stuck or
// waits; any other thread is moving.
#pragma once

#include "common/model/stack_snapshot.h"

#include <vector>

namespace xpurun::report {

// The last complete sample of each process, with ThreadStack::motion set. `samples` are in order of time,
// each a list of processes. Incomplete samples are not compared, and a note says so.
std::vector<model::ProcessStacks> with_motion(std::vector<std::vector<model::ProcessStacks>> samples);

}  // namespace xpurun::report
