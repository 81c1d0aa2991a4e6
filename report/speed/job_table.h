// The steps of all ranks as a StepTable, for comparisons.
#pragma once

#include "report/speed/ranks/rank_means.h"
#include "report/speed/step_table.h"

#include <vector>

namespace xpurun::report {

// No rank uses a GPU, as far as known.
bool on_cpus(const JobSteps& job);

// `means`: of the rank in the window. Not: since when it is slow.
model::RankSpeed speed_of_rank(const JobSteps& job, size_t index, const RankMeans& means, StepWindow window);

// The ranks only.
StepTable without_steps(const JobSteps& job);
// `seconds`: of each step of the job.
StepTable table_of(const JobSteps& job, const model::SpeedReport& report, const std::vector<double>& seconds);

}  // namespace xpurun::report
