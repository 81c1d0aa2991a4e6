// Estimates how a rank's GPU spends its time, by kind of work, from the timed calls. Pure.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <array>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// Totals of all asynchronous calls of one kind. Blocking calls (cudaMalloc, cudaMemcpy) are left out: their
// duration is host time.
struct KindOfWork {
  std::string_view name;  // "matmul", "collective", "memory", "graph", "untraced"
  uint64_t calls = 0;     // exact
  uint64_t samples = 0;   // timed calls
  double seconds = 0;     // GPU time of all calls, estimated from the samples; 0 without samples
};

struct GpuTime {
  std::array<KindOfWork, 5> kinds;
  // Share of kernels outside of any hooked library call. Negative until every kind with calls has a sample.
  double untraced_share() const;
  uint64_t samples() const;
};

// Untimed calls of an entry are assumed to take as long as its timed calls. For an entry without timed calls,
// the mean time per FLOP or per byte of the same kind is used, or per call where neither is known.
GpuTime estimate_gpu_time(const std::vector<OpTotals>& ops);

}  // namespace xpurun::launcher
