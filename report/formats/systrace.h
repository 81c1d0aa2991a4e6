// The two JSON results of openEuler's sysTrace, with its names: of the detection of slow steps (is_anomaly
// ...) and of slow nodes (resultCode ...), one line each.
#pragma once

#include "common/model/timing/speed_report.h"

#include <string>

namespace xpurun::report {

std::string systrace_results(const model::SpeedReport& report);

}  // namespace xpurun::report
