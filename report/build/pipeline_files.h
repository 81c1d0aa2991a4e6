// The pipeline of a run for its report: measures and pictures. The jobs are not kept.
#pragma once

#include "common/base/language.h"
#include "report/nodes/job_runs.h"
#include "report/run/run_report.h"

namespace xpurun::report {

// Nothing is changed if the run has no pipeline. `language` is that of the pictures.
void add_pipeline(RunReport& report, const JobRuns& job, base::Language language);

}  // namespace xpurun::report
