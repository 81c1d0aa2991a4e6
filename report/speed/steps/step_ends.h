// Boundaries of steps, without a change of the user's code: marks of the program, else ends of the
// optimizer's steps, else waits for the next batch, else the period of the sequence of collectives. "No
// stable step" is an answer; a wrong number is not.
#pragma once

#include "common/model/timing/speed_report.h"
#include "report/speed/steps/rank_spans.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

// The share of the intervals between batches that consist of the same stages, if these are steps.
inline constexpr double kSameStages = 0.6;

struct StepEnds {
  model::StepSource source = model::StepSource::none;
  model::Confidence confidence = model::Confidence::none;
  std::string why;      // why there is no step, or the confidence is not high
  uint32_t thread = 0;  // the thread that makes the steps; 0: from GPU events
  // Step i lasts from boundaries[i] to boundaries[i + 1]. The time before the first one belongs to no step.
  std::vector<int64_t> boundaries;
};

// The timed collectives of `events` count if the spans show no steps.
StepEnds find_step_ends(const RankSpans& spans, const RankRecord& rank);

}  // namespace xpurun::report
