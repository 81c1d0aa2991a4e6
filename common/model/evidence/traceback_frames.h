// Frames of a traceback that Python has printed.
#pragma once

#include "common/model/exception.h"

#include <string_view>
#include <vector>

namespace xpurun::model {

// Of the last traceback in the text, the last frames, outermost first: earlier tracebacks are causes and
// contexts. Secrets in source lines are masked.
std::vector<PythonFrame> traceback_frames(std::string_view text);

}  // namespace xpurun::model
