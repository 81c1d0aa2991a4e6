// Jobs in GPU time: from the first to the last GPU work that the program launched during the job. Pure.
#pragma once

#include "report/events/activity.h"
#include "report/pipeline/jobs/jobs.h"

#include <vector>

namespace xpurun::report {

// Replaces the host times of jobs during which timed GPU work was launched. Communication does not count,
// because it waits for other ranks. Where calls of such work lack times, the job lasted at least that long.
// `jobs` of one rank, in order; they stay in order. Ends of steps move behind the job before them.
void use_gpu_times(std::vector<Job>& jobs, std::vector<int64_t>& step_marks, const Activity& activity);

}  // namespace xpurun::report
