// The output of `xpurun analyze` for people. Pure.
#pragma once

#include "common/model/timing/speed_report.h"

#include <string>

namespace xpurun::launcher {

std::string analysis_text(const model::SpeedReport& report, size_t columns);

}  // namespace xpurun::launcher
