// What the GPUs of waiting ranks do, by the counters of their multiprocessors: NCCL's kernel, another kernel
// or nothing. For hangs in which all hosts wait for their GPUs. Pure.
#pragma once

#include "report/diagnosis/rank_view.h"

#include <vector>

namespace xpurun::report {

// All ranks wait, and NCCL's kernel runs on the GPU of some: a rank whose host waits for its GPU, and whose
// GPU runs something else or nothing, does not wait for the others. Such a rank gets the state stuck. Does
// nothing if the counters of a rank's GPU are unknown, or if another process uses this GPU.
void tell_kernels_apart(std::vector<RankView>& ranks, const Facts& facts);

// Of a multiprocessor that works; 0 if none does. The counters of the GPU must be known.
double warps_each(const model::GpuDevice& gpu);

}  // namespace xpurun::report
