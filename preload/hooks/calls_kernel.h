// Kernels that the program launches itself, rather than through cuBLAS or NCCL: attention, element-wise
// kernels, Triton's. Every launch is counted; a random sample is timed, from which the GPU time of all
// launches is estimated. A step has thousands of launches, so a launch that is only counted must be cheap:
// the operation is found by an index, without a search.
#pragma once

#include "preload/core/vendor.h"
#include "preload/record/timed_call.h"

namespace xpurun::preload {

struct KernelLaunch {
  const void* function = nullptr;
  uint64_t blocks = 0;
  void* stream = nullptr;
};

inline KernelLaunch launch_of(const void* function, const void* config) {
  if (config == nullptr) {
    return {function, 0, nullptr};
  }
  const auto* c = static_cast<const LaunchConfig*>(config);
  return {function, uint64_t{c->grid.x} * c->grid.y * c->grid.z, c->stream};
}

// clang-format off
inline KernelLaunch launch_of(CudaLaunchKernel*, const void* function, Dim3 grid, Dim3, void**, size_t, void* stream) { return {function, uint64_t{grid.x} * grid.y * grid.z, stream}; }
inline KernelLaunch launch_of(CudaLaunchKernelEx*, const void* config, const void* function, void**) { return launch_of(function, config); }
inline KernelLaunch launch_of(CuLaunchKernel*, void* function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned, void* stream, void**, void**) { return {function, uint64_t{x} * y * z, stream}; }
inline KernelLaunch launch_of(CuLaunchKernelEx*, const void* config, void* function, void**, void**) { return launch_of(function, config); }
// clang-format on

Ticket begin_kernel(wire::Api api, const KernelLaunch& launch);
void end_kernel(const Ticket& ticket, Outcome outcome);

struct KernelCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(A...), A... args) {
    const Ticket ticket = begin_kernel(kApi, launch_of(real, args...));
    int result = 0;
    {
      const Inside inside;
      result = real(args...);
    }
    end_kernel(ticket, outcome_of(result));
    return result;
  }
};

}  // namespace xpurun::preload
