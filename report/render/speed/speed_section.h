// The section "Speed" of the page: findings, step-time plot, heat map, time by stage and rank.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_speed(PageData& page, const RunReport& report, const PageLimits& limits);

}  // namespace xpurun::report
