// Which ranks are asked for the kernels on their GPUs when a hang is dumped. cuda-gdb stops a rank for about
// ten seconds and loads NVIDIA's debugger into the rank. A stall that passes must not pay that for an answer
// that nobody needs. Pure.
#pragma once

#include "common/base/ids.h"
#include "common/model/vocabulary.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <optional>

namespace xpurun::launcher {

// What the helper of the rank is asked. `wanted` is the option of the run, `fault` what the recorded calls of
// all ranks tell; it matters for GpuStacks::automatic only.
model::GpuStacks gpu_question(model::GpuStacks wanted, const std::optional<report::CallFinding>& fault,
                              base::Rank rank);

}  // namespace xpurun::launcher
