// How many calls a rank makes in a step. All calls have numbers, few are timed. Pure.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// Calls of one entry per step of the window, from the numbers of the timed ones. Nothing if these tell too
// little of the window.
std::optional<double> calls_per_step(const std::vector<TimedSample>& samples, const JobSteps& job,
                                     size_t rank, StepWindow window);

// How often in a step the rank reads a few bytes from its GPU and waits for them.
double reads_per_step(const JobSteps& job, size_t rank, StepWindow window);

// Matmuls of a step. Each call of a shape counts as long as it takes on the median rank: a slower GPU has no
// more work, more calls are more.
struct MatmulWork {
  double calls = 0;
  double seconds = 0;
};
// By rank. Shapes whose calls are not known on all ranks are left out.
std::vector<MatmulWork> matmul_work(const JobSteps& job, StepWindow window);

}  // namespace xpurun::report
