// Levels: the steps between two changes of the job.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <span>
#include <vector>

namespace xpurun::report {

inline constexpr size_t kWarmUpSteps = 3;
inline constexpr size_t kLeastWindow = 10;  // steps

// The steps since the latest change, without those in which the program warms up.
StepWindow current_window(const model::SpeedReport& report, size_t steps);

// The first changed step, if only `change.step` and the steps before `first` were looked at: the split of the
// steps in between that fits the levels best.
size_t changed_within(std::span<const double> seconds, const model::StepChange& change, size_t first);

// Single steps that last very long: between two changes, few steps do.
std::vector<size_t> lonely_pauses(std::span<const double> seconds,
                                  const std::vector<model::StepChange>& changes);

struct Slowdown {
  StepWindow before;
  // From the fastest level until now, or from the level before the change that made most of the difference.
  model::StepChange change;
};

// The job was faster once. Empty if it is as fast as ever. `now`: seconds of a step; `least`: share.
std::optional<Slowdown> slowdown_of(const std::vector<model::StepChange>& changes, size_t steps, double now,
                                    double least);

}  // namespace xpurun::report
