// Findings: the facts for the reader, most important first: the evidence of the verdict, then gaps of the
// report and side events. Pure.
#pragma once

#include "report/run/run_report.h"

#include <string_view>
#include <vector>

namespace xpurun::report {

std::vector<Finding> find_findings(const RunReport& report);

}  // namespace xpurun::report
