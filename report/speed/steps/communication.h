// How much communication each step of a rank has, and how much of it computing hides.
#pragma once

#include "report/speed/steps/rank_spans.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// Fills `exposed_ns` and `hidden_ns` of the steps, after add_events(). On a GPU: from its timed collectives
// and work, in steps whose collectives were all timed; work that was not timed hides nothing, so the exposed
// part is an upper limit then. Without a GPU: from the calls in spans; those of `thread`, which makes the
// steps, are exposed, and those of other threads are hidden.
void add_communication(const RankRecord& rank, const RankSpans& spans, uint32_t thread, RankSteps& out);

}  // namespace xpurun::report
