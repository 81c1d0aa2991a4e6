// How long the stages of a pipeline work, and for which share of a step they are idle. Pure.
#pragma once

#include "common/model/speed/pipeline.h"

namespace xpurun::report {

// Share of a step in which a stage is idle if all stages need equally long and each does `jobs` forward jobs
// in a step: (stages - 1) / (jobs + stages - 1), with one forward and one backward at a time or all forward
// jobs first.
double bubble_of_schedule(size_t stages, int jobs);

// Fills the measures of stages, steps and pipeline from the jobs with their steps.
void measure(model::Pipeline& pipeline);

// A stage stands out if it is busy longer than the next by at least this share.
inline constexpr double kLeastExcess = 0.05;

}  // namespace xpurun::report
