#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xpurun::report {

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) {
    return 0;
  }
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(low);
  std::nth_element(values.begin(), nth, values.end());
  const double below = *nth;
  if (low + 1 == values.size()) {
    return below;
  }
  const double above = *std::min_element(nth + 1, values.end());
  return below + (above - below) * (at - static_cast<double>(low));
}

double median(std::vector<double> values) {
  return quantile(values, 0.5);
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double one : values) {
    sum += one;
  }
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double deviation(std::span<const double> values) {
  const double centre = mean(values);
  double squares = 0;
  for (const double one : values) {
    squares += (one - centre) * (one - centre);
  }
  return values.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double robust_spread(std::span<const double> values, double centre) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) {
    distances.push_back(std::abs(value - centre));
  }
  return 1.4826 * median(std::move(distances));
}

double lasting_variance(std::span<const double> residues) {
  const size_t n = residues.size();
  double squares = 0;
  for (const double one : residues) {
    squares += one * one;
  }
  const double single = n > 0 ? squares / static_cast<double>(n) : 0;
  const size_t block = std::clamp<size_t>(n / 8, 5, 30);
  const size_t blocks = n / block;
  double of_sums = 0;
  for (size_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (const double one : residues.subspan(b * block, block)) {
      sum += one;
    }
    of_sums += sum * sum;
  }
  return blocks < 2 ? single : std::max(single, of_sums / static_cast<double>((blocks - 1) * block));
}

RankSum rank_sum(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;
  all.reserve(a.size() + b.size());
  for (const double value : a) {
    all.emplace_back(value, false);
  }
  for (const double value : b) {
    all.emplace_back(value, true);
  }
  std::sort(all.begin(), all.end());
  double ranks_of_b = 0;
  double ties = 0;
  for (size_t i = 0; i < all.size();) {
    size_t end = i;
    size_t of_b = 0;
    for (; end < all.size() && all[end].first == all[i].first; ++end) {
      of_b += all[end].second ? 1 : 0;
    }
    const auto count = static_cast<double>(end - i);
    ranks_of_b += static_cast<double>(of_b) * (static_cast<double>(i + end + 1) / 2);
    ties += count * count * count - count;
    i = end;
  }
  if (a.empty() || b.empty()) {
    return {};
  }
  const auto na = static_cast<double>(a.size());
  const auto nb = static_cast<double>(b.size());
  const double n = na + nb;
  const double larger = ranks_of_b - nb * (nb + 1) / 2;
  const double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
  const double distance = std::max(std::abs(larger - na * nb / 2) - 0.5, 0.0);
  return {larger / (na * nb), variance > 0 ? distance / std::sqrt(variance) : 0};
}

double rank_sum_probability(std::span<const double> a, std::span<const double> b) {
  return a.size() < 2 || b.size() < 2 ? 1 : std::erfc(rank_sum(a, b).z / std::sqrt(2.0));
}

double binomial_tail(size_t trials, size_t least, double p) {
  const auto n = static_cast<double>(trials);
  double out = 0;
  for (size_t i = least; i <= trials; ++i) {
    const auto k = static_cast<double>(i);
    out += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(p) +
                    (n - k) * std::log1p(-p));
  }
  return out;
}

int64_t median_of_others(std::span<const int64_t> sorted, int64_t own) {
  const auto at = static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin());
  const auto other = [&](size_t i) { return sorted[i < at ? i : i + 1]; };
  const size_t others = sorted.size() - 1;
  return others % 2 != 0 ? other(others / 2)
                         : other(others / 2 - 1) + (other(others / 2) - other(others / 2 - 1)) / 2;
}

}  // namespace xpurun::report
