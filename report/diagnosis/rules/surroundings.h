// Evidence from the host besides the stacks: its GPUs and the kernel log. Only facts that may explain a
// verdict are included; a healthy GPU is no evidence.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <vector>

namespace xpurun::report {

// "the kernel killed train (pid 7): the host was out of memory"
std::string kernel_words(const model::KernelEvent& e);
// A process that reached the limit of another control group, which takes no memory from this job. Where pids
// of the kernel's log cannot be compared with the job's, at least one of before the job.
bool is_of_another_job(const model::RunManifest& run, const model::KernelEvent& e);

// Adds one line per kernel event, per unhealthy GPU and per broken link or file system.
void add_surroundings(const Scene& scene, std::vector<std::string>& out);

}  // namespace xpurun::report
