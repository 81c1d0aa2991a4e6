// Changes of step time: found soon where there is one, never found where there is none.
#include "report/speed/changes/change_points.h"

#include "report/speed/levels.h"
#include "tests/support/rounds.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// Log-normal noise with memory: each step is `alike` like the one before.
std::vector<double> steps(
    size_t count, double noise, double alike, uint32_t seed,
    const std::function<double(size_t)>& usual = [](size_t) { return 0.1; }) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> out;
  double before = normal(random);
  for (size_t i = 0; i < count; ++i) {
    before = alike * before + std::sqrt(1 - alike * alike) * normal(random);
    out.push_back(usual(i) * std::exp(before));
  }
  return out;
}

std::string text(const std::vector<model::StepChange>& changes) {
  std::string out;
  for (const model::StepChange& c : changes) {
    out += std::string(name_of(c.kind)) + " at " + std::to_string(c.step) + " by " + std::to_string(c.share) +
           " found " + std::to_string(c.found_step) + "; ";
  }
  return out;
}

}  // namespace

TEST_CASE("steady steps are no change, whatever their noise") {
  struct {
    double noise, alike;
  } const cases[] = {{0.02, 0}, {0.02, 0.5}, {0.1, 0.8}};
  for (const auto& one : cases) {
    const auto found = find_changes(steps(tests::rounds(100'000), one.noise, one.alike, 7));
    CHECK_MESSAGE(found.empty(), "noise " << one.noise << " alike " << one.alike << ": " << text(found));
  }
}

TEST_CASE("a shift of 10 % is found within 20 steps") {
  for (uint32_t seed = 1; seed <= tests::rounds(50); ++seed) {
    const size_t at = 100 + 37 * seed;
    const auto found =
        find_changes(steps(at + 20, 0.02, 0, seed, [at](size_t i) { return i < at ? 0.171 : 0.1881; }));
    REQUIRE_MESSAGE(found.size() == 1, "seed " << seed << ": " << text(found));
    CHECK(found[0].kind == model::ChangeKind::level_shift);
    CHECK(std::abs(found[0].step - static_cast<int64_t>(at)) <= 2);
    CHECK(found[0].found_step - found[0].step < 20);
    CHECK(found[0].share == doctest::Approx(0.10).epsilon(0.25));
    CHECK(found[0].before_s == doctest::Approx(0.171).epsilon(0.02));
  }
}

TEST_CASE("a shift that is smaller than the noise of three steps is found if it lasts") {
  for (uint32_t seed = 1; seed <= tests::rounds(50); ++seed) {
    const bool slower = seed % 2 == 0;
    const auto usual = [slower](size_t i) { return (i < 250) == slower ? 0.022 : 0.029; };
    const auto found = find_changes(steps(500, 0.12, 0.2, seed, usual));
    REQUIRE_MESSAGE(found.size() == 1, "seed " << seed << ": " << text(found));
    CHECK(std::abs(found[0].step - 250) <= 25);
    CHECK(found[0].found_step - found[0].step <= 150);
    CHECK(found[0].share == doctest::Approx(slower ? 0.32 : -0.24).epsilon(0.35));
  }
}

TEST_CASE("the way back is a change too") {
  const auto found =
      find_changes(steps(900, 0.02, 0, 3, [](size_t i) { return i < 300 || i >= 600 ? 0.1 : 0.13; }));
  REQUIRE_MESSAGE(found.size() == 2, text(found));
  CHECK(found[0].share == doctest::Approx(0.3).epsilon(0.1));
  CHECK(found[1].share == doctest::Approx(-0.23).epsilon(0.1));
  CHECK(std::abs(found[1].step - 600) <= 1);
}

TEST_CASE("the unit of time does not matter") {
  const auto usual = [](size_t i) { return i < 200 ? 0.1 : 0.12; };
  const auto series = steps(400, 0.02, 0, 11, usual);
  const auto reference = find_changes(series);
  REQUIRE(reference.size() == 1);
  for (const double factor : {0.001, 60.0}) {
    auto scaled = series;
    for (double& one : scaled) {
      one *= factor;
    }
    const auto found = find_changes(scaled);
    REQUIRE(found.size() == 1);
    CHECK(found[0].step == reference[0].step);
    CHECK(found[0].share == doctest::Approx(reference[0].share));
  }
}

TEST_CASE("spikes, pauses, checkpoints and alternating shapes are no change") {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> chance;
  const std::pair<const char*, std::function<double(size_t)>> cases[] = {
      {"spikes", [&](size_t) { return chance(random) < 0.02 ? 0.2 : 0.1; }},
      {"pauses", [](size_t i) { return i % 100 == 99 ? 2.0 : 0.1; }},
      {"pauses of two steps", [](size_t i) { return i % 100 >= 98 ? 1.0 : 0.1; }},
      {"evaluation of five steps", [](size_t i) { return i % 200 >= 195 ? 0.15 : 0.1; }},
      {"every tenth step is slow", [](size_t i) { return i % 10 == 0 ? 0.15 : 0.1; }},
      {"two shapes in turn", [](size_t i) { return i % 2 == 0 ? 0.15 : 0.1; }},
      {"three shapes in turn", [](size_t i) { return 0.1 + 0.03 * static_cast<double>(i % 3); }},
      {"runs of two shapes", [](size_t i) { return i % 8 < 4 ? 0.15 : 0.1; }},
      {"two shapes by chance", [&](size_t) { return chance(random) < 0.3 ? 0.15 : 0.1; }},
      {"four shapes by chance", [&](size_t) { return 0.1 + 0.02 * std::floor(4 * chance(random)); }},
  };
  for (const auto& one : cases) {
    const auto found = find_changes(steps(4000, 0.02, 0, 13, one.second));
    CHECK_MESSAGE(found.empty(), one.first << ": " << text(found));
  }
}

TEST_CASE("spikes and pauses are counted") {
  ChangeDetector detector;
  for (const double one : steps(1000, 0.01, 0, 2, [](size_t i) {
         return i % 100 == 50 ? 0.2 : i == 777 ? 30.0 : 0.1;
       })) {
    detector.add(one);
  }
  CHECK(detector.spikes() == 10);
  CHECK(detector.pauses() == 1);
  CHECK(detector.steps() == 1000);
}

TEST_CASE("the load of a shared machine is no change") {
  size_t told = 0;
  for (uint32_t seed = 1; seed <= tests::rounds(100); ++seed) {
    const auto found = find_changes(tests::shared_machine(1000, seed), ChangeSettings::for_shared_cpus());
    CHECK_MESSAGE(found.empty(), "seed " << seed << ": " << text(found));
    told += found.size();
  }
  CHECK(told == 0);
}

TEST_CASE("a lasting shift on a shared machine is found") {
  for (uint32_t seed = 1; seed <= tests::rounds(50); ++seed) {
    auto series = tests::shared_machine(400, seed);
    for (size_t i = 200; i < series.size(); ++i) {
      series[i] *= 1.8;
    }
    const auto found = find_changes(series, ChangeSettings::for_shared_cpus());
    REQUIRE_MESSAGE(found.size() == 1, "seed " << seed << ": " << text(found));
    CHECK(std::abs(found[0].step - 200) <= 8);
  }
}

TEST_CASE("a shift among pauses is found") {
  const auto found = find_changes(steps(2000, 0.02, 0, 4, [](size_t i) {
    return i % 50 == 0 ? 1.0 : i < 1000 ? 0.1 : 0.123;
  }));
  REQUIRE_MESSAGE(found.size() == 1, text(found));
  CHECK(std::abs(found[0].step - 1000) <= 2);
  CHECK(found[0].share == doctest::Approx(0.23).epsilon(0.1));
}

TEST_CASE("a slow rise is one ramp") {
  const auto found = find_changes(steps(3000, 0.02, 0, 6, [](size_t i) {
    return i < 1000 ? 0.1 : i < 2000 ? 0.1 * (1 + 0.0003 * static_cast<double>(i - 1000)) : 0.13;
  }));
  REQUIRE_MESSAGE(!found.empty(), text(found));
  CHECK_MESSAGE(found.size() == 1, text(found));
  CHECK(found[0].kind == model::ChangeKind::ramp);
  CHECK(found[0].step >= 950);
  CHECK(found[0].step <= 1300);
  CHECK(found.back().after_s == doctest::Approx(0.13).epsilon(0.05));
}

TEST_CASE("few or absurd values are no change") {
  CHECK(find_changes({}).empty());
  CHECK(find_changes(steps(25, 0.02, 0, 1)).empty());
  std::vector<double> zeros(500, 0.0);
  CHECK(find_changes(zeros).empty());
  std::vector<double> equal(500, 0.25);
  CHECK(find_changes(equal).empty());
}

TEST_CASE("changes: a change among steps that were looked at") {
  std::vector<double> seconds(100, 0.030);
  for (size_t i = 57; i < 100; ++i) {
    seconds[i] = 0.040;
  }
  seconds[52] = 0.041;  // one slow step is no change
  for (const size_t seen : {size_t{58}, size_t{70}, size_t{99}}) {
    const model::StepChange change{.step = static_cast<int64_t>(seen), .before_s = 0.030, .after_s = 0.040};
    CHECK(changed_within(seconds, change, 40) == 57);
  }
  CHECK(changed_within(seconds, {.step = 60, .before_s = 0.030, .after_s = 0.040}, 58) == 58);
}
