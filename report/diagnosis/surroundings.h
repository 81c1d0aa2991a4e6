// What the host says beside the stacks: its GPUs and the kernel's log. Only facts that may explain a verdict
// are told: a healthy GPU is no evidence.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// "GPU has fallen off the bus" for 79; empty for numbers without a meaning of their own.
std::string_view xid_meaning(int xid);

// Adds the error of the GPU to the sentence of a verdict about a death, where the kernel names the culprit's
// process or a GPU failed as a whole.
void name_gpu_error(const Scene& scene, model::Verdict& verdict);

// One line for each event of the kernel and each GPU that is not well.
void add_surroundings(const Scene& scene, std::vector<std::string>& out);

}  // namespace xpurun::report
