// The ranks of the page: a strip of all in order, and their table; the GPUs at the moment of the dump.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_ranks(PageData& page, const RunReport& report, const PageLimits& limits);
void put_gpus(PageData& page, const RunReport& report);

}  // namespace xpurun::report
