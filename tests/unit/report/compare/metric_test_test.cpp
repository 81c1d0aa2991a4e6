#include "report/compare/metric_test.h"

#include "report/operations/blocks.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;

namespace {

std::vector<float> noisy(size_t count, double mean, double spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<float>(mean * std::exp(normal(random))));
  }
  return out;
}

}  // namespace

TEST_CASE("blocks are medians of consecutive values") {
  CHECK(block_medians({}).empty());
  CHECK(block_medians(std::vector<float>{3, 1, 2}) == std::vector<double>{3, 1, 2});
  std::vector<float> many;
  for (int i = 0; i < 320; ++i) {
    many.push_back(static_cast<float>(i / 10));
  }
  const std::vector<double> blocks = block_medians(many);
  REQUIRE(blocks.size() == kMostBlocks);
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(blocks[i] == static_cast<double>(i));
  }
  BlockMeans means;
  CHECK(means.means().empty());
  means.add(std::vector<double>{1, 2, 3});
  means.add(std::vector<double>{3, 4});
  CHECK(means.means() == std::vector<double>{2, 3, 3});
  BlockMeans both;
  both.add(means);
  both.add(means);
  CHECK(both.means() == means.means());
}

TEST_CASE("a clear difference is certain, whichever side is longer") {
  const auto a = block_medians(noisy(400, 1.0, 0.02, 1));
  const auto b = block_medians(noisy(400, 1.1, 0.02, 2));
  const SeriesDifference there = compare_series(a, b);
  CHECK(there.effect == doctest::Approx(0.1).epsilon(0.05));
  CHECK(there.p < 1e-6);
  CHECK(there.superiority == 1);
  const SeriesDifference back = compare_series(b, a);
  CHECK(back.effect == doctest::Approx(1 / 1.1 - 1).epsilon(0.05));
  CHECK(back.p == doctest::Approx(there.p));
  CHECK(back.superiority == 0);
}

TEST_CASE("equal and few values prove nothing") {
  const std::vector<double> equal(20, 5.0);
  CHECK(compare_series(equal, equal).p == 1);
  CHECK(compare_series(equal, equal).superiority == 0.5);
  CHECK(compare_series({}, equal).p == 1);
  CHECK(compare_series(std::vector<double>(7, 1.0), std::vector<double>(7, 2.0)).p == 1);
  CHECK(compare_series(std::vector<double>(8, 1.0), std::vector<double>(8, 2.0)).p < 0.01);
  const SeriesDifference fresh = compare_series(std::vector<double>(8, 0.0), std::vector<double>(8, 2.0));
  CHECK(fresh.effect == kLargestEffect);
}

TEST_CASE("equal series seldom differ, even if neighbours are alike") {
  int independent = 0;
  int dependent = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    independent += compare_series(block_medians(noisy(300, 1, 0.05, seed)),
                                  block_medians(noisy(300, 1, 0.05, seed + 10'000)))
                               .p < 0.01
                       ? 1
                       : 0;
    const auto loaded = [](uint32_t of) {
      std::vector<float> out;
      for (const double factor : tests::shared_machine(300, of)) {
        out.push_back(static_cast<float>(factor));
      }
      return block_medians(out);
    };
    const SeriesDifference d = compare_series(loaded(seed), loaded(seed + 10'000));
    dependent += d.p < 0.01 && std::abs(d.effect) >= 0.1 ? 1 : 0;
  }
  CHECK(independent <= 6);  // of 300: 1 % of 300 is 3
  CHECK(dependent <= 6);
}

TEST_CASE("the correction for many comparisons") {
  CHECK(false_discovery_rates({}).empty());
  const std::vector<double> q = false_discovery_rates({0.04, 0.001, 0.03, 0.9});
  CHECK(q[1] == doctest::Approx(0.004));
  CHECK(q[2] == doctest::Approx(0.16 / 3));  // 0.04 * 4 / 3, because q grows with p
  CHECK(q[0] == doctest::Approx(0.16 / 3));
  CHECK(q[3] == doctest::Approx(0.9));
}
