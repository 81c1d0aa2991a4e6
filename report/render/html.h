// report.html: one file that makes no request, complete without scripts. Fills templates/report.mustache.
#pragma once

#include "report/run_report.h"

#include <string>

namespace xpurun::report {

struct HtmlOptions {
  size_t max_boxes = 2000;  // per picture
};

std::string report_html(const RunReport& report, const HtmlOptions& options);

}  // namespace xpurun::report
