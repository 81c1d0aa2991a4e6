// The steps of a pipeline: which step each job belongs to, and its number in the step. Pure.
#pragma once

#include "common/model/speed/pipeline.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// A step ends when no stage has a forward job without its backward job, and, if any stage has optimizer jobs
// or marks, when one of these has occurred. `marks_ns`: by stage, since the begin of the report. Sets step,
// micro_batch, number and type of the jobs where they are not known, and adds the steps.
void find_steps(model::Pipeline& pipeline, const std::vector<std::vector<int64_t>>& marks_ns);

}  // namespace xpurun::report
