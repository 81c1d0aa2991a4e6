// Robust statistics. Pure. Values are finite; an empty list gives 0 unless stated otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace xpurun::report {

// The value below which the share `q` (0 to 1) of the values lies, interpolated. Reorders `values`.
double quantile(std::vector<double>& values, double q);
double median(std::vector<double> values);
double mean(std::span<const double> values);
// Standard deviation of a sample; 0 of fewer than two values.
double deviation(std::span<const double> values);
// 1.4826 times the median distance from `centre`: the standard deviation of normally distributed values.
double robust_spread(std::span<const double> values, double centre);

// The median of `sorted` without one value equal to `own`, which is in it; `sorted` has at least two.
int64_t median_of_others(std::span<const int64_t> sorted, int64_t own);

// The variance that counts for a mean if neighbouring values are alike, from sums of 5 to 30 neighbours; at
// least the usual one. `residues` are the distances from the mean, in the order of time.
double lasting_variance(std::span<const double> residues);

// The probability of at least `least` successes in `trials`, each of probability p, 0 < p < 1.
double binomial_tail(size_t trials, size_t least, double p);

// Mann-Whitney, by the normal approximation with correction for ties.
struct RankSum {
  double superiority = 0.5;  // probability that a value of `b` is larger than one of `a`; ties count half
  double z = 0;              // distance from equality in standard deviations, without a sign
};
RankSum rank_sum(std::span<const double> a, std::span<const double> b);
// Two-sided. 1 if a side has fewer than two values.
double rank_sum_probability(std::span<const double> a, std::span<const double> b);

}  // namespace xpurun::report
