// The results and the cost of recording the GPU's activity, in sentences. Pure.
#pragma once

#include "common/model/speed/gpu_capture.h"
#include "report/profile/duration_words.h"

#include <string>
#include <vector>

namespace xpurun::report {

// How much was recorded, its cost, the ranks without records and why, hardware counters, clocks. Empty for an
// empty capture.
std::vector<std::string> gpu_sentences(const model::GpuCapture& capture);

}  // namespace xpurun::report
