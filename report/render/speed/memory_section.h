// The section "Memory" of the page: who holds the memory of the ranks, and what grows.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_memory(PageData& page, const RunReport& report, const PageLimits& limits);

}  // namespace xpurun::report
