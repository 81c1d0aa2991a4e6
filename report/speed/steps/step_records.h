// What one rank did in each step.
#pragma once

#include "report/events/rank_record.h"
#include "report/speed/steps/rank_steps.h"

namespace xpurun::report {

// `most_arrivals`: the latest ones are kept.
RankSteps steps_of(const RankRecord& rank, size_t most_arrivals);

}  // namespace xpurun::report
