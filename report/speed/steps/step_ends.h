// Boundaries of steps, without a change of the user's code: marks of the program, else ends of the
// optimizer's steps, else waits for the next batch, else the period of the sequence of collectives, else the
// replays of a CUDA graph. "No stable step" is an answer; a wrong number is not.
#pragma once

#include "report/speed/steps/found_ends.h"
#include "report/speed/steps/rank_spans.h"

namespace xpurun::report {

// The share of the intervals between batches that consist of the same stages, if these are steps.
inline constexpr double kSameStages = 0.6;

// The timed collectives of `events` count if the spans show no steps.
StepEnds find_step_ends(const RankSpans& spans, const RankRecord& rank);

}  // namespace xpurun::report
