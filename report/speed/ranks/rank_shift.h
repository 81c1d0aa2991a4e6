// Since when ranks are slower than the others. The steps of the job may be too noisy to show it: what slows
// all ranks of a machine cancels out here, because ranks are compared within each step.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <span>
#include <vector>

namespace xpurun::report {

// First index of the later part, if the values are best explained by one lasting rise. Single outliers count
// little; a slope, a part that is over at the end, and a part of less than
// `least_after` values are no rise.
std::optional<size_t> lasting_rise(std::span<const double> values, size_t least_after);

// The first step in the window from which on `ranks` (indices, ascending) are slower than the others.
std::optional<size_t> rise_of_ranks(const OwnTimes& own, StepWindow window, const std::vector<size_t>& ranks,
                                    size_t least_after);

// Own times of one rank over those of the others.
struct RatioSeries {
  std::vector<double> ratios;  // logarithms
  std::vector<size_t> steps;
};

class RankRatios {
 public:
  RankRatios(const OwnTimes& own, StepWindow window);
  RatioSeries of(size_t rank) const;

 private:
  const OwnTimes& own_;
  StepWindow window_;
  std::vector<double> medians_;  // of all ranks, by step
};

// Since when a rank is slower than the others.
struct Onset {
  size_t step = 0;
  double risen = 0;  // 0.2: its own time over that of the others is 20 % more than before
};

// Of each rank in the window, by index; nothing for ranks without a lasting rise of `least` or more.
std::vector<std::optional<Onset>> onsets(const OwnTimes& own, StepWindow window, size_t least_after,
                                         double least);

}  // namespace xpurun::report
