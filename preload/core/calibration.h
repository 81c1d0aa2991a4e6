// Constants from one-time measurements, each with its place and date. They are not exact for other hardware;
// bench/RESULTS.md has the series. The GPUs were NVIDIA H200 (compute capability 9.0).
#pragma once

#include <stdint.h>

namespace xpurun::preload {

// --- The assumed GPU cost of timing (record/own_cost.cpp); the host's part is measured at run time.

// A pair of timing events: the GPU drains the work before each event and starts the next kernel from an empty
// pipeline. About 100 pairs in a step of 18 ms on H200: 6.8 us per pair.
inline constexpr uint64_t kPairGpuNs = 7000;
// A completion event writes no time stamp. This is an assumption: the cost was too small to measure.
inline constexpr uint64_t kMarkGpuNs = 500;
// A collective that NCCL times: NCCL's proxy thread gets one entry per channel, the kernel writes two numbers
// per channel. The cost of about 20 of them in a step of 67 ms on 2 H200 was below the noise of 0.2 %; this
// is the bound.
inline constexpr uint64_t kProfilerNs = 4000;

// --- The time that events and NCCL's counters add to, or omit from, a duration (poll/device_times.cpp).

// NCCL's channels write their times inside the kernel, which omits its launch and its end. Kernel times by
// CUPTI were 2.7 to 3.4 us longer on H200, from 1 KB to 1 GB, with every protocol.
inline constexpr uint64_t kAroundChannelsNs = 2850;
// What a pair of events adds to a matmul on a busy stream: common/wire/event_pair.h.
// Start of a kernel on an idle stream, after the return of the launching call: medians of 3.4 to 6.1 us on 6
// H200 for calls that launch one kernel; from 3 us before to 2 us after the return for calls that launch two.
inline constexpr uint64_t kAfterReturnNs = 4000;
// If the end event is reached sooner than this after the call's return, the kernel ended before the return:
// the call blocked. Same series.
inline constexpr uint64_t kEventNs = 4000;
// Largest error of the GPU's clock, aligned with the host's by cuda/gpu_clock.cpp, that still counts as
// close: usually 2 us on H200; this is five times as much.
inline constexpr uint64_t kClockErrorNs = 10'000;

// --- Alignment of the GPU's clock with the host's (cuda/gpu_clock.cpp).

// cudaEventRecord takes some us, and some tens of us under CUPTI. A longer call was interrupted, so its host
// time is useless.
inline constexpr uint64_t kLongestRecordNs = 60'000;
// The spread of the GPU's arrival at an event on an idle stream, in ns.
inline constexpr double kJitterNs = 3'000;
// Assumed relative error of the rate between the two clocks: before the rate is measured, and afterwards.
inline constexpr double kUnknownRate = 50e-6;
inline constexpr double kRateError = 5e-6;

}  // namespace xpurun::preload
