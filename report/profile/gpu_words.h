// What the recording of the GPU's activity gave and cost, in sentences. Pure.
#pragma once

#include "common/model/speed/gpu_capture.h"

#include <string>
#include <vector>

namespace xpurun::report {

// How much was recorded, its cost, the ranks without records and why, clocks. Empty for an empty capture.
std::vector<std::string> gpu_sentences(const model::GpuCapture& capture);

// "12.5 us", "3.20 ms"
std::string work_duration(double seconds);

}  // namespace xpurun::report
