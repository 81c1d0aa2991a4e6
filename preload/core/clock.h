// The host clock of every time in the segment and in notices. Any thread, async-signal-safe.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

inline constexpr uint64_t kNsPerMs = 1'000'000;
inline constexpr uint64_t kNsPerSecond = 1'000'000'000;

// CLOCK_MONOTONIC. glibc answers from the vDSO, about 20 ns without a system call.
uint64_t now_ns();

// The same clock at the kernel's last tick: up to some ms behind now_ns(), never ahead. A quarter of the
// cost, because no CPU counter is read.
uint64_t coarse_now_ns();

// Sleeps until the deadline. Signals do not shorten the sleep.
void sleep_until(uint64_t deadline_ns);

}  // namespace xpurun::preload
