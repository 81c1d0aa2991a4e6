// What the two sources of the stand-in for libcupti.so.13 share.
#pragma once

#include <cstdint>

namespace xpurun::fakes {

inline constexpr uint64_t kMs = 1'000'000;
// Within each millisecond of CUPTI's clock that begins at phase_ns(): work, in ns.
inline constexpr uint64_t kKernelBegin = 50'000;
inline constexpr uint64_t kKernelEnd = 650'000;
inline constexpr uint64_t kCollectiveBegin = 550'000;
inline constexpr uint64_t kCollectiveEnd = 850'000;

// CUPTI's clock.
uint64_t cupti_now();
// Begin of a millisecond of the made records.
uint64_t phase_ns();

}  // namespace xpurun::fakes
