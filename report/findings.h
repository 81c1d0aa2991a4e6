// Findings: what a reader should know, most important first: the verdict's evidence, then whatever makes the
// report less than whole or happened beside it. Pure.
#pragma once

#include "report/run_report.h"

#include <string_view>
#include <vector>

namespace xpurun::report {

std::vector<Finding> find_findings(const RunReport& report);

// "error", "warning", "note", "good"
std::string_view name_of(Severity severity);

}  // namespace xpurun::report
