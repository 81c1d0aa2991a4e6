// Whether the values of two series differ, and how certainly. Pure.
#pragma once

#include <span>
#include <vector>

namespace xpurun::report {

struct SeriesDifference {
  double a = 0;            // median
  double b = 0;            // median
  double effect = 0;       // b / a - 1, at most kLargestEffect
  double superiority = 0;  // probability that a value of `b` is larger than one of `a`; ties count half
  double p = 1;            // 1 if a side has fewer than kLeastBlocks values
};

inline constexpr size_t kLeastBlocks = 8;
inline constexpr double kLargestEffect = 1000;

// The test of Mann and Whitney, two-sided. The values are in the order of time: where neighbours are alike,
// there are fewer independent values than values, and the test is widened accordingly.
SeriesDifference compare_series(std::span<const double> a, std::span<const double> b);

// The share of wrong discoveries (Benjamini and Hochberg) if all with at most this p are taken: by index.
std::vector<double> false_discovery_rates(const std::vector<double>& p);

}  // namespace xpurun::report
