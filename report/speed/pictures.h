// Bounded summaries of many steps, for plots.
#pragma once

#include "report/speed/ranks/waits.h"

#include <span>
#include <vector>

namespace xpurun::report {

inline constexpr size_t kMostBins = 400;
inline constexpr size_t kMostHeatRows = 128;
inline constexpr size_t kMostHeatColumns = 160;

std::vector<model::StepBin> step_bins(std::span<const double> seconds);
model::HeatMap heat_map(const JobSteps& job, const OwnTimes& own);
// Of these steps, without checkpoints and evaluations.
model::DurationRow step_durations(const JobSteps& job, const std::vector<size_t>& usual);
// Times of day of the first step and of the changes.
void put_times(const JobSteps& job, model::SpeedReport& report);

}  // namespace xpurun::report
