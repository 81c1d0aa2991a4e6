// The section "Pipeline" of the page: sentence, picture, tables of stages and steps.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_pipeline(PageData& page, const RunReport& report, const PageLimits& limits);

}  // namespace xpurun::report
