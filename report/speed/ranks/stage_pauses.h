// Checkpoints and evaluations: how long steps wait for them, how often, and on which ranks they take longer
// than on the others. They are never a slowdown of the job: JobSteps::step_seconds() leaves them out.
#pragma once

#include "report/speed/ranks/job_steps.h"

#include <vector>

namespace xpurun::report {

// `step_s`: a usual step. Without sentences; stages with nothing worth telling are left out.
std::vector<model::StagePause> stage_pauses(const JobSteps& job, double step_s);

}  // namespace xpurun::report
