// The result of a capture as text. Pure.
#pragma once

#include "common/model/speed/capture_report.h"

#include <string>

namespace xpurun::launcher {

// The sentence and a table of at most `rows` functions.
std::string capture_text(const model::CaptureReport& capture, size_t rows, size_t columns);

}  // namespace xpurun::launcher
