// Which ranks are asked for the kernels on their GPUs when a hang is dumped. cuda-gdb stops a rank for about
// ten seconds and loads NVIDIA's debugger into the rank. A stall that passes must not pay that for an answer
// that nobody needs. Pure.
#pragma once

#include "common/base/ids.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// The value of xpurun-stackdump's option --gpu-stacks for the rank. `wanted` is xpurun's option of the same
// name, `fault` what the recorded calls of all ranks tell; with "always" and "never" the calls do not matter.
std::string gpu_question(std::string_view wanted, const std::optional<report::CallFinding>& fault,
                         base::Rank rank);

}  // namespace xpurun::launcher
