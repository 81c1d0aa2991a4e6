#include "launcher/spans/memory_growth.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// One sample a second, ten steps a second.
struct Grown {
  MemorySeries series;
  int second = 0;

  void add(double mib, double helpers_mib = 0) {
    ++second;
    series.add({.at_ns = second * base::MonoNs{1'000'000'000},
                .own_bytes = static_cast<int64_t>(mib * kMiB),
                .helpers_bytes = static_cast<int64_t>(helpers_mib * kMiB),
                .steps = static_cast<uint64_t>(10 * second)});
  }
};

}  // namespace

TEST_CASE("memory growth: a leak is found with its rate, and not before it is large enough") {
  Grown g;
  for (int i = 0; i < 20; ++i) {
    g.add(1000 + 10 * i);
  }
  CHECK_FALSE(g.series.growth());  // too few samples
  for (int i = 20; i < 60; ++i) {
    g.add(1000 + 10 * i);
  }
  const auto found = g.series.growth();
  REQUIRE(found);
  CHECK(found->bytes_per_s() == doctest::Approx(10 * kMiB).epsilon(0.1));
  CHECK(found->to.steps > found->from.steps);
  Grown slow;
  for (int i = 0; i < 60; ++i) {
    slow.add(1000 + i);  // 60 MiB
  }
  CHECK_FALSE(slow.series.growth());
}

TEST_CASE("memory growth: what is given back, fills a cache or stays is none") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0, 400);
  Grown noisy;
  Grown cache;
  Grown start;
  for (int i = 0; i < 2000; ++i) {
    noisy.add(2000 + noise(random));
    cache.add(2000 + 4000 * (1 - std::exp(-i / 150.0)));
    start.add(i < 30 ? 100.0 * i : 3000);
    if (i > 400) {
      CHECK_FALSE(noisy.series.growth());
      CHECK_FALSE(start.series.growth());
    }
  }
  CHECK_FALSE(cache.series.growth());
}

TEST_CASE("memory growth: a saw tooth that rises is found by its lowest values") {
  Grown g;
  for (int i = 0; i < 600; ++i) {
    g.add(1000 + i + 300 * (i % 20) / 20.0);
  }
  const auto found = g.series.growth();
  REQUIRE(found);
  CHECK(found->bytes_per_s() == doctest::Approx(kMiB).epsilon(0.1));
}

TEST_CASE("memory growth: a leak late in a long run is found, and the series stays small") {
  Grown g;
  int found_after = 0;
  for (int i = 0; i < 20'000; ++i) {
    g.add(4000);
  }
  for (int i = 0; i < 20'000 && found_after == 0; ++i) {
    g.add(4000 + i, i / 2.0);
    found_after = g.series.growth() ? i : 0;
  }
  CHECK(found_after > 0);
  CHECK(found_after < 8'000);
  CHECK(g.series.size() < 256);
}

TEST_CASE("memory growth: the time until the limit") {
  CHECK(seconds_to_limit(40, 100, 2) == doctest::Approx(30));
  CHECK(seconds_to_limit(100, 40, 2) == 0);
  CHECK(seconds_to_limit(40, 100, 0) < 0);
  CHECK(seconds_to_limit(40, 0, 2) < 0);
}
