// Regular patterns: every n-th step is slow.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace xpurun::report {

struct StepPattern {
  size_t period = 0;   // steps
  StepWindow window;   // from the first slow step on
  int64_t since = -1;  // the first slow step; negative: from the begin of the window that was given
  std::vector<size_t> slow;
  double slow_s = 0;   // medians; what spills into the next step is part of the slow one
  double usual_s = 0;  // of the other steps
  double lost_s = 0;   // in the mean of the steps
};

// `seconds` of all steps. The shortest period with a place at which nearly all steps take half as long again
// as the usual one, while few other steps do: in the window, or from a step of it to its end. `least`: slow
// steps; with kLeastSlowOnCpus or more, other steps may vary as much, as long as nearly all slow ones take
// longer than most others.
inline constexpr size_t kLeastSlow = 5;
inline constexpr size_t kLeastSlowOnCpus = 16;  // other programs make steps slow by chance
std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window,
                                      size_t least = kLeastSlow);

// The ranks that make the slow steps slow, if they explain most of it. `own`: null if no waits within steps
// are known; those at the ends of steps may be known all the same.
std::optional<Blame> blame_for(const StepPattern& pattern, const JobSteps& job, const OwnTimes* own,
                               const std::vector<std::string>& hosts);

}  // namespace xpurun::report
