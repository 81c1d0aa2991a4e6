// Regular patterns: every n-th step is slow.
#pragma once

#include "report/speed/ranks/waits.h"

#include <optional>
#include <span>
#include <vector>

namespace xpurun::report {

struct StepPattern {
  size_t period = 0;  // steps
  std::vector<size_t> slow;
  double slow_s = 0;   // medians
  double usual_s = 0;  // of the other steps
};

// `seconds` of all steps. The shortest period with a place at which nearly all steps of the window take half
// as long again as the usual one, while few other steps do.
std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window);

// What is known of the slow steps only.
OwnTimes without_usual_steps(OwnTimes own, const StepPattern& pattern, StepWindow window);

}  // namespace xpurun::report
