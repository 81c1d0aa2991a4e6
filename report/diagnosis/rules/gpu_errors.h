// Errors of GPUs that the kernel's log reports (Xid), and the ranks that they concern. Pure.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// "Xid 79 (GPU has fallen off the bus)"
std::string xid_words(const model::KernelEvent& e);
// "GPU has fallen off the bus" for 79; empty for numbers without a meaning of their own.
std::string_view xid_meaning(int xid);

// Adds the GPU error to the sentence of a verdict about a death, if the kernel names the culprit's process or
// a whole GPU failed; and to that of a hang, if the error is the culprit's.
void name_gpu_error(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
