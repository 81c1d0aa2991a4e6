// Selects the ranks that are asked for the kernels on their GPUs when a hang is dumped. cuda-gdb stops a rank
// for about 10 s and loads NVIDIA's debugger into the rank. A stall that passes must not cost that for an
// answer that nobody needs. Pure.
#pragma once

#include "common/base/ids.h"
#include "common/model/vocabulary.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// The request to the helper of the rank. `wanted` is the option of the run; `fault` is the fault in the
// recorded calls of all ranks and matters only for GpuStacks::automatic. So does `shared`: other processes
// compute on the GPU of the rank. cuda-gdb debugs one process of a GPU at a time; on 2 H200 with two ranks
// each, it did not end within its limit, and the ranks died of SIGSEGV when it was ended. The same was seen
// where several jobs share a GPU.
model::GpuStacks gpu_question(model::GpuStacks wanted, const std::optional<report::CallFinding>& fault,
                              base::Rank rank, bool shared);

// Whether another process computes on a GPU of this process. `processes`: of each GPU, as the driver numbers
// them. A process that no GPU lists is of another pid namespace, or its GPU is not known: then every GPU
// counts.
bool shares_gpu(const std::vector<std::vector<base::Pid>>& processes, base::Pid pid);

// The GPUs that processes of this host or container may use; 0: none, or not NVIDIA's.
size_t gpus_of_host(const std::string& devices = "/dev");

}  // namespace xpurun::launcher
