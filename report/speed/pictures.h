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
// Adds the communication of their steps.
void put_communication(const JobSteps& job, std::vector<model::StepBin>& bins);
model::HeatMap heat_map(const JobSteps& job, const OwnTimes& own);
// Of these steps, without checkpoints and evaluations.
model::DurationRow step_durations(const JobSteps& job, const std::vector<size_t>& usual);
// Wall-clock time at which a rank begins the step; 0: no rank has it.
int64_t step_begin_ns(const JobSteps& job, size_t step);
// Times of day of the first step and of the changes.
void put_times(const JobSteps& job, model::SpeedReport& report);

}  // namespace xpurun::report
