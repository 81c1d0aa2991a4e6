// Evidence from the host besides the stacks: its GPUs and the kernel log. Only facts that may explain a
// verdict are included; a healthy GPU is no evidence.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The line of the kernel's log about the death of this process for lack of memory; null if there is none.
const model::KernelEvent* oom_kill_of(const Scene& scene, const Ending& e);
// The same of a process without a record, on the node of the rank that it belonged to.
const model::KernelEvent* oom_kill_of(const Scene& scene, const model::HelperDeath& death, size_t node);
// " (out of memory: the kernel killed it ...)"
std::string out_of_memory_words(const model::KernelEvent& kill);
// `limit`: of a control group.
model::NextStep advice_on_memory(bool limit);

// "the kernel killed train (pid 7): the host was out of memory"
std::string kernel_words(const model::KernelEvent& e);

// Adds one line per kernel event, per unhealthy GPU and per broken link or file system.
void add_surroundings(const Scene& scene, std::vector<std::string>& out);

}  // namespace xpurun::report
