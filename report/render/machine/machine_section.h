// The section "Machine" of the page: what each host used while the job ran, what was wrong with the host, and
// who had the CPUs of ranks that were ready to run.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_machine(PageData& page, const RunReport& report, const PageLimits& limits);

}  // namespace xpurun::report
