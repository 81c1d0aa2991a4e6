// The input of a comparison for a run, or for a group of its ranks: series of values for each metric.
#pragma once

#include "common/model/speed/comparison.h"
#include "report/operations/samples.h"
#include "report/speed/step_table.h"

#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

struct MetricSamples {
  model::MetricKind kind = model::MetricKind::step;
  std::string name;
  std::vector<double> blocks;  // seconds, in the order of time
  int64_t count = 0;           // of steps or timed calls
  double flop = 0;             // of a call of a matmul; 0: unknown
  double per_step_s = -1;      // time of all calls of a rank in a step; negative: unknown
  std::vector<std::pair<base::Rank, double>> ranks;  // typical value of each rank, by rank; may be empty
};

struct RunSamples {
  model::ComparedSide side;
  std::vector<MetricSamples> metrics;
};

RunSamples samples_of(const model::SpeedReport& report, const StepTable& steps,
                      const std::vector<OperationSamples>& operations);

}  // namespace xpurun::report
