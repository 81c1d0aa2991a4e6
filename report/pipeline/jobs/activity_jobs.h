// The jobs of a rank from its activity: marks of the program, else traced functions, else its point-to-point
// operations and calls of backward. Pure.
#pragma once

#include "report/events/activity.h"
#include "report/pipeline/jobs/job_names.h"
#include "report/pipeline/jobs/jobs.h"

#include <optional>

namespace xpurun::report {

// Whether a rank whose traced functions are jobs, but that has no point-to-point operation, counts.
enum class Evidence {
  needed,      // it may be a job without a pipeline whose functions have such names
  not_needed,  // the user says that there is a pipeline
};

// Nothing if the rank has no forward or no backward jobs. Slices in order. Times are wall times of the rank's
// host; GPU time where the GPU work of a job was timed.
std::optional<RankJobs> jobs_of(const Activity& activity, const JobFunctions& chosen, Evidence evidence);

}  // namespace xpurun::report
