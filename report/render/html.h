// report.html: one file that makes no request, complete without scripts. Fills templates/report.mustache.
#pragma once

#include "report/run/run_report.h"

#include <string>

namespace xpurun::report {

inline constexpr size_t kLargestPage = size_t{8} << 20;

// A page larger than `max_bytes` is made again with shorter lists until it fits, and says so.
std::string report_html(const RunReport& report, size_t max_bytes = kLargestPage);

}  // namespace xpurun::report
