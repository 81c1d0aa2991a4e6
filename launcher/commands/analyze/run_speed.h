// Reading of what a run tells of its speed, for analyze and diff.
#pragma once

#include "common/base/result.h"
#include "report/build/speed/speed_files.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// Several directories are those of the nodes of one job. Prints notes on unreadable files. E-NO-DATA if no
// rank has spans or timed calls.
base::Result<report::SpeedOfRun> read_run_speed(const std::vector<std::string>& operands,
                                                const report::SpeedReading& reading);

}  // namespace xpurun::launcher
