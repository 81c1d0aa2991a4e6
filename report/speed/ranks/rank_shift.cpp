#include "report/speed/ranks/rank_shift.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr double kShiftOutlier = 4;  // standard deviations; values are cut off there
constexpr double kCertainShift = 6;  // standard errors of the difference of two means
constexpr size_t kFewForMedian = 8;  // their median without one rank differs from that of all
constexpr double kBetterFit = 12;    // by which a rise explains more than a slope, in residual variances

std::vector<double> cut_off(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  std::vector<double> steps;  // between neighbours: the spread without the rise
  for (size_t i = 1; i < out.size(); ++i) {
    steps.push_back(out[i] - out[i - 1]);
  }
  // A difference of two values has twice the variance of one.
  const double spread = robust_spread(steps, 0) / std::sqrt(2.0);
  std::vector<double> sorted = out;
  const double low = quantile(sorted, 0.1) - kShiftOutlier * spread;
  const double high = quantile(sorted, 0.9) + kShiftOutlier * spread;
  for (double& value : out) {
    value = std::clamp(value, low, high);
  }
  return out;
}

// For each step: the median of the known own times; negative: fewer than two ranks are known.
std::vector<double> medians_of_steps(const OwnTimes& own, StepWindow window) {
  std::vector<double> out;
  std::vector<double> known;
  for (size_t i = window.first; i < window.last; ++i) {
    known.clear();
    for (const float one : own.step(i)) {
      if (one > 0) {
        known.push_back(static_cast<double>(one));
      }
    }
    out.push_back(known.size() < 2 ? -1 : quantile(known, 0.5));
  }
  return out;
}

// The median of the other ranks. With many ranks it is that of all.
double others_of(std::span<const float> step, size_t rank, double median_of_all) {
  if (step.size() > kFewForMedian) {
    return median_of_all;
  }
  std::vector<double> others;
  for (size_t r = 0; r < step.size(); ++r) {
    if (r != rank && step[r] > 0) {
      others.push_back(static_cast<double>(step[r]));
    }
  }
  return others.empty() ? -1 : quantile(others, 0.5);
}

}  // namespace

RankRatios::RankRatios(const OwnTimes& own, StepWindow window)
    : own_(own), window_(window), medians_(medians_of_steps(own, window)) {}

RatioSeries RankRatios::of(size_t rank) const {
  RatioSeries out;
  for (size_t i = window_.first; i < window_.last; ++i) {
    const auto step = own_.step(i);
    const double others = others_of(step, rank, medians_[i - window_.first]);
    if (step[rank] > 0 && others > 0) {
      out.ratios.push_back(std::log(static_cast<double>(step[rank]) / others));
      out.steps.push_back(i);
    }
  }
  return out;
}

std::optional<size_t> lasting_rise(std::span<const double> values, size_t least_after) {
  const size_t least_before = least_after;
  if (values.size() < least_before + least_after) {
    return {};
  }
  const std::vector<double> x = cut_off(values);
  const auto n = static_cast<double>(x.size());
  const double centre = mean(x);
  double left = 0;
  double moment = 0;
  double most = 0;
  size_t split = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto before = static_cast<double>(i);
    // What a rise at i explains of the variance.
    const double explained = i == 0 ? 0 : left * left * n / (before * (n - before));
    if (left < 0 && explained > most && i >= least_before && i + least_after <= x.size()) {
      most = explained;
      split = i;
    }
    left += x[i] - centre;
    moment += (x[i] - centre) * (before - (n - 1) / 2);
  }
  if (split == 0) {
    return {};
  }
  const auto all = std::span(std::as_const(x));
  const double before = mean(all.first(split));
  const double after = mean(all.subspan(split));
  std::vector<double> residues;
  for (size_t i = 0; i < x.size(); ++i) {
    residues.push_back(x[i] - (i < split ? before : after));
  }
  const double variance = std::max(lasting_variance(residues), 1e-18);
  const auto first = static_cast<double>(split);
  const double error = std::sqrt(variance * (1 / first + 1 / (n - first)));
  // The sum of squares that a least-squares line over 0 to n - 1 explains.
  const double by_slope = moment * moment * 12 / (n * (n * n - 1));
  // The rise is still there in the last third of the later part.
  const size_t last = std::max(least_after / 2, (x.size() - split) / 3);
  const bool lasts = mean(all.last(last)) > (before + after) / 2;
  return after - before > kCertainShift * error && most - by_slope > kBetterFit * variance && lasts
             ? std::optional(split)
             : std::nullopt;
}

std::optional<size_t> rise_of_ranks(const OwnTimes& own, StepWindow window, const std::vector<size_t>& ranks,
                                    size_t least_after) {
  std::vector<double> ratios;
  std::vector<size_t> steps;
  for (size_t i = window.first; i < window.last; ++i) {
    const auto step = own.step(i);
    float slow = -1;
    std::vector<double> others;
    for (size_t r = 0; r < step.size(); ++r) {
      if (std::binary_search(ranks.begin(), ranks.end(), r)) {
        slow = std::max(slow, step[r]);
      } else if (step[r] > 0) {
        others.push_back(static_cast<double>(step[r]));
      }
    }
    if (slow > 0 && !others.empty()) {
      ratios.push_back(std::log(static_cast<double>(slow) / quantile(others, 0.5)));
      steps.push_back(i);
    }
  }
  const auto at = lasting_rise(ratios, least_after);
  return at ? std::optional(steps[*at]) : std::nullopt;
}

std::vector<std::optional<Onset>> onsets(const OwnTimes& own, StepWindow window, size_t least_after,
                                         double least) {
  std::vector<std::optional<Onset>> out(own.ranks());
  if (own.ranks() < 2) {
    return out;
  }
  const RankRatios ratios(own, window);
  for (size_t r = 0; r < own.ranks(); ++r) {
    RatioSeries series = ratios.of(r);
    const auto at = lasting_rise(series.ratios, least_after);
    if (!at) {
      continue;
    }
    const auto split = series.ratios.begin() + static_cast<std::ptrdiff_t>(*at);
    std::vector<double> before(series.ratios.begin(), split);
    std::vector<double> after(split, series.ratios.end());
    const double risen = std::exp(quantile(after, 0.5) - quantile(before, 0.5)) - 1;
    if (risen >= least) {
      out[r] = Onset{.step = series.steps[*at], .risen = risen};
    }
  }
  return out;
}

}  // namespace xpurun::report
