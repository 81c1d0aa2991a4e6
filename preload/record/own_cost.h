// The cost of timing itself, summed in the segment for the budget and for the user. Host time is measured, on
// every sample and on a fraction of the calls that are only counted; GPU time comes from core/calibration.h.
// Any thread.
#pragma once

#include "preload/core/state.h"
#include "preload/record/budget.h"

#include <stdint.h>

namespace xpurun::preload {

// Adds a pair of timing events, a completion event, or a collective timed by NCCL, with the host time that it
// took.
void sampled(uint64_t host_ns);
void marked(uint64_t host_ns);
void profiled(uint64_t host_ns);

// One in 1024 calls that are only counted is measured.
inline constexpr uint32_t kCostEvery = 1024;

// The time without the cache misses of the first reading after other work.
uint64_t warm_now_ns();
// The start of the measurement of a call that is only counted: the current time for a fraction of the calls,
// else 0, so that other calls do not read the clock.
inline uint64_t cost_begins() {
  return ++t_thread.counted_calls % kCostEvery == 0 ? warm_now_ns() : 0;
}
// Adds a call that was only counted and took this much of the library's time, in two parts of one clock
// reading each. `every`: one in `every` such calls is measured.
void counted(uint64_t measured_ns, uint32_t every = kCostEvery);

// All costs since the process began.
Spent spent();

}  // namespace xpurun::preload
