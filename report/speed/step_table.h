// The steps of the job as series, for comparisons. Plain data.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/timing/speed_report.h"

#include <array>
#include <vector>

namespace xpurun::report {

struct StepTable {
  model::RankSet ranks;  // with steps
  bool gpu = false;
  size_t level = 0;      // index in step_s of the first step since the latest change of the job
  size_t own_level = 0;  // the same in own_s
  // By step of the job, without the first ones, in which the program warms up. Seconds, without checkpoints
  // and evaluations: the median over the ranks, and the mean of the part in which a rank did not wait (only
  // steps of which that is known).
  std::vector<float> step_s;
  std::vector<float> own_s;
  // Mean over the ranks.
  std::array<std::vector<float>, model::kStepStages> stages_s;
};

}  // namespace xpurun::report
