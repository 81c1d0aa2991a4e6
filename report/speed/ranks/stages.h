// Stages of a training pipeline, from what the ranks send each other: activations to the next stage and
// gradients as large back. Ranks of data parallelism may send messages too, but reduce more together.
#pragma once

#include "report/speed/ranks/job_steps.h"

#include <vector>

namespace xpurun::report {

// By index of the rank: equal for ranks at the same place of their pipelines, the first stage, one of the
// middle stages or the last. Empty unless every rank has a place. Stages differ in their work by nature.
std::vector<size_t> stages_of(const JobSteps& job);

}  // namespace xpurun::report
