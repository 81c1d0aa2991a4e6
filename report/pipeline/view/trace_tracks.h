// Rows of a Perfetto trace for pipelines: the steps, and the jobs of each stage.
#pragma once

#include "common/model/speed/pipeline.h"
#include "report/timeline/timeline.h"

#include <string>
#include <vector>

namespace xpurun::report {

// One activity per pipeline, with wall times. Slices in order.
std::vector<TimelineRows> pipeline_rows(const model::PipelineReport& report);

}  // namespace xpurun::report
