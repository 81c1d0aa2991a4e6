// The boundaries of steps that some sign shows. Plain data.
#pragma once

#include "common/model/timing/speed_report.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

inline constexpr size_t kLeastSteps = 3;

struct StepEnds {
  model::StepSource source = model::StepSource::none;
  model::Confidence confidence = model::Confidence::none;
  std::string why;      // why there is no step, or the confidence is not high
  uint32_t thread = 0;  // the thread that makes the steps; 0: from GPU events
  // Step i lasts from boundaries[i] to boundaries[i + 1]. The time before the first one belongs to no step.
  std::vector<int64_t> boundaries;
};

}  // namespace xpurun::report
