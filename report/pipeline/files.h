// The pipelines of run directories or of logs of Paddle.
#pragma once

#include "common/base/result.h"
#include "common/model/speed/pipeline.h"
#include "report/pipeline/finder.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

struct PipelineOfRun {
  std::optional<model::PipelineReport> report;  // empty: there is no pipeline
  std::vector<base::Error> problems;            // files that are left out or damaged
  size_t ranks = 0;                             // with jobs
};

// `operands`: directories with logs of Paddle, or anything that `xpurun timeline` reads. One rank is in
// memory at a time. Event files are read only if the spans of one of the first ranks show jobs.
PipelineOfRun read_pipeline(const std::vector<std::string>& operands, const PipelineOptions& options);

}  // namespace xpurun::report
