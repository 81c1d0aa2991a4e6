// The spans of a rank (stages of its steps, functions, garbage collection) as activity.
#pragma once

#include "common/model/timing/span.h"
#include "report/events/activity.h"

namespace xpurun::report {

// Adds the spans to the activity of the same rank, one Python track per thread. A mark has no duration.
void add_spans(Activity& activity, const model::SpanFile& file);

}  // namespace xpurun::report
