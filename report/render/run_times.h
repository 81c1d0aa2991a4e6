// The time line of the page: when each rank was seen, made its last progress and ended; stalls, dumps and
// exceptions of the run, with the time of day. HTML without scripts, in per cent of the run.
#pragma once

#include "report/render/parts/page_parts.h"

namespace xpurun::report {

void put_times(PageData& page, const RunReport& report);

}  // namespace xpurun::report
