// What a file of another tool says, in the form of our own files.
#pragma once

#include "report/events/activity.h"
#include "report/events/rank_record.h"

namespace xpurun::report {

// Adds the activity of one file to the record of its process. CLOCK_MONOTONIC is the wall time.
void add_foreign(RankRecord& record, const Activity& activity);

}  // namespace xpurun::report
