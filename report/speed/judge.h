// The findings of an analysis: which ranks cost the others time, since when, and why; what has become slower.
#pragma once

#include "common/base/language.h"
#include "report/speed/changes/change_points.h"
#include "report/speed/ranks/job_steps.h"

#include <vector>

namespace xpurun::report {

struct JudgedSteps {
  const std::vector<double>& seconds;  // of each step of the job
  const std::vector<size_t>& usual;    // JobSteps::usual_steps()
};

// Needs the changes of `out` and whether its waits were measured. Adds findings, what-if, pauses, launches,
// ranks and the heat map; corrects the size of the latest change. `language` is that of SpeedFinding::spoken.
void judge(JobSteps& job, model::SpeedReport& out, const JudgedSteps& steps, const ChangeSettings& settings,
           base::Language language);

}  // namespace xpurun::report
