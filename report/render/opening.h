// The first part of templates/report.mustache, which the user of a failed job reads before anything else.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

// Source, tracebacks, log tail, what the others wait for, next step, evidence.
void put_opening(PageData& page, const RunReport& report);

}  // namespace xpurun::report
