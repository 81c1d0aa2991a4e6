// Reads the speed data of a run, for analyze and diff.
#pragma once

#include "common/base/result.h"
#include "report/build/speed_files.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// Several directories are those of the nodes of one job. Prints notes on unreadable files. E-NO-DATA if no
// rank has spans or timed calls.
base::Result<report::SpeedOfRun> read_run_speed(const std::vector<std::string>& operands,
                                                const report::SpeedReading& reading);

// For a command that has printed the numbers: fails if files were damaged or could not be read.
int status_of(const report::SpeedOfRun& speed);

}  // namespace xpurun::launcher
