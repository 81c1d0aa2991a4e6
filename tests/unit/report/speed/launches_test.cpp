// From the call to the start on the GPU: which rank's GPU waits for its host.
#include "report/speed/ranks/launches.h"

#include "tests/support/rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr int64_t kStepNs = 100'000'000;

// `delay` of a call at a time (0 to 1) of the run, in seconds.
JobSteps made(int ranks, size_t calls, const std::function<double(int rank, double at)>& delay) {
  std::vector<RankSteps> all;
  for (int r = 0; r < ranks; ++r) {
    RankSteps& rank = all.emplace_back();
    rank.rank = r;
    for (int64_t i = 0; i < 100; ++i) {
      rank.steps.push_back({.begin_ns = i * kStepNs, .duration_ns = kStepNs});
    }
    for (size_t i = 0; i < calls; ++i) {
      const double at = static_cast<double>(i) / static_cast<double>(calls);
      rank.launch_delays.push_back(
          {static_cast<int64_t>(at * 100 * kStepNs), static_cast<float>(delay(r, at))});
    }
  }
  return JobSteps(std::move(all));
}

model::RankSet starved(const std::vector<model::RankLaunches>& launches) {
  model::RankSet out;
  for (const model::RankLaunches& one : launches) {
    if (one.starved) {
      out.insert(one.rank);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("mean, median and 99th percentile by rank, of the window") {
  const JobSteps job = made(2, 1000, [](int rank, double at) { return at < 0.5 ? 1 : (rank + 1) * 1e-3; });
  const auto launches = rank_launches(job, {50, 100});
  REQUIRE(launches.size() == 2);
  CHECK(launches[1].rank == 1);
  CHECK(launches[1].calls == 500);
  CHECK(launches[1].mean_s == doctest::Approx(2e-3));
  CHECK(launches[1].median_s == doctest::Approx(2e-3));
  CHECK(launches[1].p99_s == doctest::Approx(2e-3));
  CHECK(rank_launches(job, {0, 100})[0].mean_s == doctest::Approx(0.5005));
  CHECK(rank_launches(made(3, 0, [](int, double) { return 0.0; }), {0, 100}).empty());
}

TEST_CASE("a rank whose queue is empty stands out") {
  struct Case {
    const char* name;
    int ranks;
    size_t calls;
    double usual_s;
    double own_s;  // of rank 1
    bool expected;
  };
  const Case cases[] = {
      {"empty queue", 8, 400, 5e-3, 12e-6, true},
      {"of two ranks", 2, 400, 5e-3, 12e-6, true},
      {"half as long", 8, 400, 5e-3, 2.5e-3, false},
      {"all queues are empty", 8, 400, 30e-6, 5e-6, false},
      {"a long queue", 8, 400, 100e-6, 5e-3, false},
      {"another rank is slow on its GPU", 2, 400, 12e-3, 2.5e-3, false},
      {"too few calls", 8, 40, 5e-3, 12e-6, false},
  };
  for (const Case& one : cases) {
    CAPTURE(one.name);
    std::mt19937 random(3);
    std::normal_distribution<double> noise(0, 0.7);
    const JobSteps job = made(one.ranks, one.calls, [&](int rank, double) {
      return (rank == 1 ? one.own_s : one.usual_s) * std::exp(noise(random));
    });
    CHECK(starved(rank_launches(job, {0, 100})) == (one.expected ? model::RankSet{1} : model::RankSet()));
  }
}

TEST_CASE("equal ranks are never accused") {
  int accused = 0;
  for (uint32_t seed = 0; seed < tests::rounds(300); ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> chance;
    const int ranks = 2 + static_cast<int>(seed % 9);
    const size_t calls = 64 + 37 * (seed % 50);
    double state = 0;
    const JobSteps job = made(ranks, calls, [&](int, double at) {
      switch (seed % 4) {
        case 0:  // a wide distribution
          return 1e-3 * std::exp(1.5 * normal(random));
        case 1:  // empty or full queues, as often
          return (chance(random) < 0.5 ? 8e-6 : 6e-3) * std::exp(0.3 * normal(random));
        case 2:  // neighbours are alike
          state = 0.97 * state + 0.25 * normal(random);
          return 500e-6 * std::exp(state);
        default:  // phases of the run that all ranks have
          return (at < 0.3 ? 10e-6 : 4e-3) * std::exp(0.5 * normal(random));
      }
    });
    accused += starved(rank_launches(job, {0, 100})).empty() ? 0 : 1;
  }
  CHECK(accused == 0);
}
