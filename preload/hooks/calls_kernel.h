// Kernels that the program launches itself instead of through cuBLAS or NCCL: attention, element-wise
// kernels, Triton's. Every launch is counted; a random sample is timed, and the GPU time of all launches is
// estimated from it. A step has thousands of launches, so counting must be cheap: an index gives the
// operation, without a search.
#pragma once

#include "preload/core/vendor.h"
#include "preload/record/own_cost.h"
#include "preload/record/sampling.h"
#include "preload/record/step_anchor.h"
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

// Launches of one function with about the same number of blocks take about the same time. At most this many
// kinds are distinguished, so that kernels never fill the table of operations; kinds with equal hashes share
// an entry.
inline constexpr uint32_t kKernelKinds = 256;
// Per kind: index of its operation + 1; 0: no entry yet.
__attribute__((visibility("hidden"))) extern std::atomic<uint32_t> g_kernel_entries[kKernelKinds];
uint32_t enter_kernel(wire::Api api, uint32_t kind);

constexpr uint64_t mixed(uint64_t n) {
  n = (n ^ n >> 32) * 0x9e3779b97f4a7c15;
  return n ^ n >> 29;
}

inline uint32_t kernel_entry(wire::Api api, const KernelLaunch& launch) {
  const auto size = static_cast<uint64_t>(launch.blocks == 0 ? 0 : 64 - __builtin_clzll(launch.blocks));
  const uint64_t which = reinterpret_cast<uintptr_t>(launch.function) >> 4;
  const auto kind =
      static_cast<uint32_t>(mixed(which ^ size << 48 ^ static_cast<uint64_t>(api) << 56) % kKernelKinds);
  const uint32_t known = g_kernel_entries[kind].load(std::memory_order_relaxed);
  return known != 0 ? known - 1 : enter_kernel(api, kind);
}

// A random draw by the number of the launch: programs repeat the same launches, so every n-th launch would
// always be the same kernel. The first launch of a kind is never a sample, because CUDA then loads the
// kernel's code (lazy loading), which can take milliseconds.
inline Turn turn_of_kernel(uint32_t entry) {
  const uint64_t number = calls_counted_here(entry);
  if (number != 0 && is_to_be_timed(wire::OpClass::kernel) && is_first_of_step(kWorkDue)) {
    return Turn::first_of_step;
  }
  const bool drawn = is_turn_to_time(mixed(mixed(number)), wire::OpClass::kernel);
  return number != 0 && drawn ? Turn::time : Turn::count;
}

struct KernelCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(A...), A... args) {
    const uint64_t cost_began_ns = cost_begins();
    const KernelLaunch launch = launch_of(real, args...);
    const uint32_t entry = kernel_entry(kApi, launch);
    return call_counted(real, {entry, launch.stream, nullptr, 0}, turn_of_kernel(entry), cost_began_ns,
                        args...);
  }
};

}  // namespace xpurun::preload
