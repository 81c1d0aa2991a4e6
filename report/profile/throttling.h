// Whether the GPUs of some ranks ran at lower clocks than those of the others during a capture, or all GPUs
// than before. Pure.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/speed/gpu_capture.h"

#include <string>

namespace xpurun::report {

// "the SM clock of rank 1 was 1200 MHz (power_cap 80 %), that of the others 1980 MHz"; empty unless the GPU
// of each of these ranks had a median clock 5 % below the others' that explains half of `slowdown` (0.2: the
// work takes 20 % longer), or was throttled in 10 % more of the samples. A power cap counts by its clocks
// only, because it is usual under full load.
std::string throttling_words(const model::GpuCapture& capture, const model::RankSet& ranks, double slowdown);

// "all GPUs were throttled (thermal 60 %), the SM clock was 1200 MHz, before 1980 MHz"; empty unless each GPU
// was throttled in 10 % more of the samples than in the capture `before`, or its median clock is 5 % lower,
// which explains half of `slowdown`. `before` may be nullptr. A power cap counts by its clocks only.
std::string throttling_of_all_words(const model::GpuCapture& capture, const model::GpuCapture* before,
                                    double slowdown);

}  // namespace xpurun::report
