// What a rank's GPU spends its time on, by kind of work: an estimate from the calls that were timed. Pure.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <array>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// Of all calls of one kind that work on a stream; those that block (cudaMalloc, cudaMemcpy) are not among
// them, because what they take is the host's time.
struct KindOfWork {
  std::string_view name;  // "matmul", "collective", "memory", "graph", "untraced"
  uint64_t calls = 0;     // exact
  uint64_t samples = 0;   // of these
  double seconds = 0;     // of all of them, estimated from the samples; 0 without one
};

struct GpuTime {
  std::array<KindOfWork, 5> kinds;
  // Share of the kernels without a library call; negative as long as a kind that has calls has no sample.
  double untraced_share() const;
  uint64_t samples() const;
};

// An entry's calls are taken to be as long as its timed ones; those of an entry without any as long as the
// timed ones of their kind for each FLOP or byte, or for each call where there are neither.
GpuTime estimate_gpu_time(const std::vector<OpTotals>& ops);

}  // namespace xpurun::launcher
