// How long the work of each rank waits in its GPU's queue, and the ranks whose queue is empty: their GPU
// waits for the host. Only timed calls whose begin on the GPU was measured count.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <vector>

namespace xpurun::report {

// Of the ranks with samples in the window; by rank.
std::vector<model::RankLaunches> rank_launches(const JobSteps& job, StepWindow window);

// The samples of a rank in the window.
std::vector<TimedSample> samples_within(const std::vector<TimedSample>& samples, const JobSteps& job,
                                        size_t rank, StepWindow window);

}  // namespace xpurun::report
