#include "report/speed/primitives/statistics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace xpurun::report;

TEST_CASE("quantiles are interpolated and do not depend on the order") {
  std::vector<double> values{4, 1, 3, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(quantile(values, 0.5) == doctest::Approx(2.5));
  CHECK(median({5}) == 5);
  CHECK(median({}) == 0);
  CHECK(robust_spread(std::vector<double>{1, 1, 1, 1, 100}, 1) == 0);
}

TEST_CASE("Mann-Whitney tells shifted samples from equal ones") {
  // Values of scipy.stats.mannwhitneyu(method="asymptotic").
  CHECK(rank_sum_probability(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{6, 7, 8, 9, 10}) ==
        doctest::Approx(0.01219).epsilon(0.001));
  CHECK(rank_sum_probability(std::vector<double>{1, 2, 2, 3}, std::vector<double>{2, 3, 3, 4}) ==
        doctest::Approx(0.1814).epsilon(0.01));
  CHECK(rank_sum_probability(std::vector<double>{1, 1, 1}, std::vector<double>{1, 1, 1}) == 1);
  CHECK(rank_sum_probability(std::vector<double>{1}, std::vector<double>{2, 3}) == 1);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  int wrong = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> a(40);
    std::vector<double> b(40);
    std::generate(a.begin(), a.end(), [&] { return normal(random); });
    std::generate(b.begin(), b.end(), [&] { return normal(random); });
    wrong += rank_sum_probability(a, b) < 0.01 ? 1 : 0;
    for (double& one : b) {
      one += 2;
    }
    CHECK(rank_sum_probability(a, b) < 0.001);
    CHECK(rank_sum_probability(a, b) == doctest::Approx(rank_sum_probability(b, a)));
  }
  CHECK(wrong <= 8);
}
