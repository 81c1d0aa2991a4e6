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

// Median of the window, without the steps in which more calls than usual were timed. `usual`: the others.
double usual_seconds(std::span<const double> seconds, const std::vector<size_t>& usual, StepWindow window);

// Mean of the window, without the steps that are passed over.
double mean_seconds(std::span<const double> seconds, const OwnTimes& own, StepWindow window);

struct Slowdown {
  StepWindow before;
  // From the fastest level until now, or from the level before the change that made most of the difference.
  model::StepChange change;
};

// The job was faster once. Empty if it is as fast as ever. `now`: seconds of a step; `least`: share.
std::optional<Slowdown> slowdown_of(const std::vector<model::StepChange>& changes, size_t steps, double now,
                                    double least);

// As if the job had become slower at this step, which is not that of `slow`.
Slowdown slowdown_at(size_t step, const Slowdown& slow, std::span<const double> seconds,
                     const std::vector<size_t>& usual);

}  // namespace xpurun::report
