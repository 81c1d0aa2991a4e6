// What CUPTI recorded during a capture, as text. Pure.
#pragma once

#include "common/model/speed/gpu_capture.h"

#include <string>

namespace xpurun::launcher {

// Sentences and a table of at most `rows` kernels, memory operations and calls; empty for an empty capture.
std::string gpu_capture_text(const model::GpuCapture& capture, size_t rows, size_t columns);

}  // namespace xpurun::launcher
