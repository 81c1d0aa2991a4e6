// What timing itself costs, added up in the segment for the budget and for the user. Host time is measured,
// on every sample and on one in many calls that are only counted; GPU time is taken from core/calibration.h.
// Any thread.
#pragma once

#include "preload/core/state.h"
#include "preload/record/budget.h"

#include <stdint.h>

namespace xpurun::preload {

// Adds a pair of timing events, a completion event without timing, or a collective that NCCL times, and the
// host time that it took.
void sampled(uint64_t host_ns);
void marked(uint64_t host_ns);
void profiled(uint64_t host_ns);

// Of the calls that are only counted, one in 1024 is measured.
inline constexpr uint32_t kCostEvery = 1024;

// The time without the cache misses that the first reading after other work has.
uint64_t warm_now_ns();
// The begin of the measurement of a call that is only counted: the time now on one call in many, else 0, so
// that other calls do not read the clock.
inline uint64_t cost_begins() {
  return ++t_thread.counted_calls % kCostEvery == 0 ? warm_now_ns() : 0;
}
// Adds a call that was only counted and took this much of the library's time, in two parts of one clock
// reading each. `every`: one in so many such calls is measured.
void counted(uint64_t measured_ns, uint32_t every = kCostEvery);

// All costs since the process began.
Spent spent();

}  // namespace xpurun::preload
