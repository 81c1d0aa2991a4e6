// Findings about the host below the job: links, file systems, pressure, and mistakes in the placement of the
// ranks, each with its cure. Pure.
#pragma once

#include "report/run/run_report.h"

#include <vector>

namespace xpurun::report {

void add_machine_findings(const RunReport& report, std::vector<Finding>& out);

}  // namespace xpurun::report
