// Evidence from the host besides the stacks: its GPUs and the kernel log. Only facts that may explain a
// verdict are included; a healthy GPU is no evidence.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The line of the kernel's log about the death of this process for lack of memory; null if there is none.
const model::KernelEvent* oom_kill_of(const Scene& scene, const Ending& e);

// Adds one line per kernel event and per unhealthy GPU.
void add_surroundings(const Scene& scene, std::vector<std::string>& out);

}  // namespace xpurun::report
