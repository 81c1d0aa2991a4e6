// What a pair of timing events adds to the duration of the matmul between them: medians of event pairs less
// CUPTI's kernels on 4 H200, ten shapes: 6.8 to 7.3 us in bf16, 3.9 to 4.2 us in fp32, independent of the
// shape and of the time of an empty pair (2.0 to 2.5 us). preload/ subtracts it from the calls of a run, and
// commands/replay/ from the calls of a replay, so that both durations mean the same. Freestanding.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kBf16PairNs = 6900;
inline constexpr uint64_t kFp32PairNs = 4000;
inline constexpr int kMeasuredComputeMajor = 9;  // compute capability 9.x, the only one measured

// In ns, on a busy stream; `type_a` is the cudaDataType_t of A. 0: not measured for this GPU and data type.
constexpr uint64_t matmul_pair_ns(int compute_major, uint8_t type_a) {
  constexpr uint8_t kFp32 = 0;
  constexpr uint8_t kBf16 = 14;
  if (compute_major != kMeasuredComputeMajor) {
    return 0;
  }
  return type_a == kBf16 ? kBf16PairNs : type_a == kFp32 ? kFp32PairNs : 0;
}

}  // namespace xpurun::wire
