// How soon a shift of 10 % is found, over many made series with the noise of real GPU jobs (2 to 3 % of a
// step, neighbouring steps somewhat alike, single slow steps). The numbers are in bench/RESULTS.md:
//   build/tests/unit/report/speed/unit_speed -tc='detection: *' -s
#include "report/speed/changes/change_points.h"
#include "report/speed/primitives/statistics.h"
#include "tests/support/rounds.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr size_t kShiftAt = 300;
constexpr size_t kSteps = 500;
constexpr uint32_t kSeeds = tests::rounds(200);

std::vector<double> series(uint32_t seed, double noise, double shift) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> chance;
  std::vector<double> out;
  double alike = 0;
  for (size_t i = 0; i < kSteps; ++i) {
    alike = 0.3 * alike + std::sqrt(1 - 0.09) * noise * normal(random);
    const double spike = chance(random) < 0.01 ? 1 + chance(random) : 1;
    out.push_back(0.2 * std::exp(alike) * spike * (i >= kShiftAt ? 1 + shift : 1));
  }
  return out;
}

struct Result {
  size_t found = 0;       // series in which the shift was reported
  size_t in_time = 0;     // within 20 steps
  size_t false_told = 0;  // other changes
  double median_after = 0;
  double p95_after = 0;
  double median_error = 0;  // of the reported step
};

Result measure(double noise, double shift) {
  Result out;
  std::vector<double> after;
  std::vector<double> errors;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    ChangeDetector detector;
    bool found = false;
    for (const double seconds : series(seed, noise, shift)) {
      const auto change = detector.add(seconds);
      if (!change) {
        continue;
      }
      const double error = std::abs(static_cast<double>(change->step) - static_cast<double>(kShiftAt));
      if (shift > 0 && !found && change->share > 0 && error <= 20) {
        found = true;
        after.push_back(static_cast<double>(change->found_step) - static_cast<double>(kShiftAt));
        errors.push_back(error);
        out.in_time += after.back() <= 20 ? 1 : 0;
      } else {
        ++out.false_told;
      }
    }
    out.found += found ? 1 : 0;
  }
  out.median_after = quantile(after, 0.5);
  out.p95_after = quantile(after, 0.95);
  out.median_error = quantile(errors, 0.5);
  return out;
}

}  // namespace

TEST_CASE("detection: a shift of 10 % is told within 20 steps") {
  struct Case {
    double noise;
    size_t least_in_time;  // per cent
  };
  // With noise of 3 %, the shift is close to the three standard deviations below which no shift is reported.
  for (const auto& [noise, least_in_time] : {Case{0.02, 98}, Case{0.025, 95}, Case{0.03, 70}}) {
    const Result r = measure(noise, 0.1);
    MESSAGE("noise ", 100 * noise, " %: found ", r.found, " of ", kSeeds, ", within 20 steps ", r.in_time,
            ", median ", r.median_after, " and 95th percentile ", r.p95_after, " steps after, step wrong by ",
            r.median_error, " (median), other changes told ", r.false_told);
    CHECK(r.found >= kSeeds * 95 / 100);
    CHECK(r.in_time >= kSeeds * least_in_time / 100);
    CHECK(r.median_after <= 20);
    CHECK(r.median_error <= 3);
    CHECK(r.false_told <= kSeeds / 50);
  }
}

TEST_CASE("detection: without a shift, nothing is told") {
  for (const double noise : {0.02, 0.03}) {
    const Result r = measure(noise, 0);
    MESSAGE("noise ", 100 * noise, " %, no shift: ", r.false_told, " changes told in ", kSeeds, " series");
    CHECK(r.false_told <= kSeeds / 100);
  }
}

TEST_CASE("detection: a shift within the noise is told when it has lasted") {
  for (const double shift : {0.15, 0.2, 0.25, 0.32}) {
    const Result r = measure(0.12, shift);
    MESSAGE("noise 12 %, shift ", 100 * shift, " %: found ", r.found, " of ", kSeeds, ", median ",
            r.median_after, " steps after, step wrong by ", r.median_error, " (median), other changes told ",
            r.false_told);
    CHECK(r.found >= kSeeds * (shift > 0.3 ? 90 : shift > 0.2 ? 70 : 0) / 100);
    CHECK(r.false_told <= kSeeds / 10);
  }
  const Result none = measure(0.12, 0);
  MESSAGE("noise 12 %, no shift: ", none.false_told, " changes told in ", kSeeds, " series");
  CHECK(none.false_told <= kSeeds / 100);
}
