// What a GPU does while the host waits for it, by the counters of its multiprocessors. Pure.
#pragma once

#include "common/model/evidence/gpu_state.h"

#include <cstdint>

namespace xpurun::report {

enum class RunningKernel {
  unknown,  // the GPU has no such counters
  nothing,
  nccl,   // a kernel that may be NCCL's
  other,  // a kernel that is none of NCCL's
};

// `least_count`: elements of the smallest collective that the GPU may be in; 0: unknown.
RunningKernel running_kernel(const model::GpuDevice& gpu, uint64_t least_count);

// Warps of a multiprocessor that works; 0 if none does. The counters of the GPU must be known.
double warps_each(const model::GpuDevice& gpu);

}  // namespace xpurun::report
