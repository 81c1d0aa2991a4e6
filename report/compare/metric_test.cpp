#include "report/compare/metric_test.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace xpurun::report {

namespace {

constexpr double kMostAlike = 0.95;

// The sums of a series around its mean: products of neighbours, and squares.
struct Products {
  double neighbours = 0;
  double squares = 0;
};

Products products_of(std::span<const double> values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  Products out;
  for (size_t i = 0; i < values.size(); ++i) {
    out.squares += (values[i] - mean) * (values[i] - mean);
    out.neighbours += i == 0 ? 0 : (values[i] - mean) * (values[i - 1] - mean);
  }
  return out;
}

// How many times larger the variance of a mean is than that of the mean of independent values, if each value
// depends on the one before (AR(1)). Both series count equally: one alone is too short to estimate the
// correlation.
double dependence(std::span<const double> a, std::span<const double> b) {
  double alike = 0;
  double unseen = 0;  // a short series shows this much less correlation than there is
  for (const std::span<const double> one : {a, b}) {
    const Products p = products_of(one);
    alike += p.squares > 0 ? p.neighbours / p.squares / 2 : 0;
    unseen += 0.5 / static_cast<double>(one.size());
  }
  if (alike <= 0) {
    return 1;
  }
  alike = std::min(alike + unseen * (1 + 3 * alike), kMostAlike);
  return (1 + alike) / (1 - alike);
}

}  // namespace

SeriesDifference compare_series(std::span<const double> a, std::span<const double> b) {
  SeriesDifference out{.a = median({a.begin(), a.end()}), .b = median({b.begin(), b.end()})};
  if (a.empty() || b.empty()) {
    return out;
  }
  out.effect = out.a > 0 ? std::min(out.b / out.a - 1, kLargestEffect) : out.b > 0 ? kLargestEffect : 0;
  const RankSum sum = rank_sum(a, b);
  out.superiority = sum.superiority;
  if (std::min(a.size(), b.size()) >= kLeastBlocks) {
    out.p = std::erfc(sum.z / std::sqrt(2 * dependence(a, b)));
  }
  return out;
}

std::vector<double> false_discovery_rates(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&p](size_t a, size_t b) { return p[a] < p[b]; });
  std::vector<double> out(p.size(), 1);
  double least = 1;
  for (size_t i = order.size(); i-- > 0;) {
    least = std::min(least, p[order[i]] * static_cast<double>(p.size()) / static_cast<double>(i + 1));
    out[order[i]] = least;
  }
  return out;
}

}  // namespace xpurun::report
