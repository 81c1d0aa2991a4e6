#include "report/diagnosis/waits/gpu_counters.h"

namespace xpurun::report {

using model::GpuDevice;

namespace {

// Of GPUs with GPM (compute capability 9.0 and 10.0).
constexpr double kWarpsPerMultiprocessor = 64;
constexpr double kIdlePercent = 0.05;  // one of some 150 multiprocessors is 0.7 %
// NCCL's kernel while it waits, measured on H200 with NCCL 2.28 (bench/RESULTS.md): a block on each of 8 to
// 24 multiprocessors, of 16 to 19 warps; of the smallest sizes, one block of 3 warps. A block has at most 640
// threads and one more warp, and a communicator 64 channels.
constexpr double kMostPercent = 50;
constexpr double kMostWarps = 21.5;
constexpr double kLeastWarps = 2.5;
constexpr double kLeastWarpsOfLarge = 8;
constexpr uint64_t kLargeCount = 16384;  // elements

}  // namespace

double warps_each(const GpuDevice& gpu) {
  return gpu.sm_active_percent < kIdlePercent
             ? 0
             : gpu.sm_occupancy_percent / gpu.sm_active_percent * kWarpsPerMultiprocessor;
}

RunningKernel running_kernel(const GpuDevice& gpu, uint64_t least_count) {
  if (gpu.sm_active_percent < 0 || gpu.sm_occupancy_percent < 0) {
    return RunningKernel::unknown;
  }
  if (gpu.sm_active_percent < kIdlePercent) {
    return RunningKernel::nothing;
  }
  const double warps = warps_each(gpu);
  const bool fits = gpu.sm_active_percent <= kMostPercent && warps <= kMostWarps &&
                    warps >= (least_count >= kLargeCount ? kLeastWarpsOfLarge : kLeastWarps);
  return fits ? RunningKernel::nccl : RunningKernel::other;
}

}  // namespace xpurun::report
