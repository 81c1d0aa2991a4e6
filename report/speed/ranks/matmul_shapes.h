// Matmuls of the same shapes on several ranks and in several windows.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <vector>

namespace xpurun::report {

inline constexpr double kSlowShapes = 0.08;  // slowdown of equal matmuls that is a cause

// Mean over the matmul shapes, weighted by their time, of: the blamed ranks' time over the others' time,
// minus 1.
double slower_shapes(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window);
// The share of the blamed ranks' matmuls, by time, whose shape no other rank has.
double other_shapes(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window);
// Whether replays of graphs take more of the blamed ranks' timed work than matmuls do.
bool mostly_graphs(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window);
// How much longer the same matmuls take than before: the median of the ranks, most of which have to show it;
// else 0.
double slower_than_before(const JobSteps& job, StepWindow before, StepWindow after);

}  // namespace xpurun::report
