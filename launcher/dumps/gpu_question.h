// Selects the ranks that are asked for the kernels on their GPUs when a hang is dumped. cuda-gdb stops a rank
// for about 10 s and loads NVIDIA's debugger into the rank. A stall that passes must not cost that for an
// answer that nobody needs. Pure.
#pragma once

#include "common/base/ids.h"
#include "common/model/vocabulary.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <optional>

namespace xpurun::launcher {

// The request to the helper of the rank. `wanted` is the option of the run; `fault` is the fault in the
// recorded calls of all ranks and matters only for GpuStacks::automatic.
model::GpuStacks gpu_question(model::GpuStacks wanted, const std::optional<report::CallFinding>& fault,
                              base::Rank rank);

}  // namespace xpurun::launcher
