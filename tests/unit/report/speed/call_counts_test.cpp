// Calls of a step, from the numbers of the few that are timed.
#include "report/speed/ranks/call_counts.h"

#include <doctest/doctest.h>

#include <functional>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr int64_t kCountedStepNs = 100'000'000;
constexpr size_t kCountedSteps = 200;

// `calls` of each step, evenly spread; timed are those that `is_timed` says.
std::vector<TimedSample> called(const std::function<int(size_t step)>& calls,
                                const std::function<bool(uint32_t number)>& is_timed, float seconds = 1e-3F) {
  std::vector<TimedSample> out;
  uint32_t number = 0;
  for (size_t i = 0; i < kCountedSteps; ++i) {
    for (int c = 0; c < calls(i); ++c, ++number) {
      if (is_timed(number)) {
        const int64_t at = static_cast<int64_t>(i) * kCountedStepNs + c * kCountedStepNs / calls(i);
        out.push_back({.at_ns = at, .seconds = seconds, .number = number});
      }
    }
  }
  return out;
}

bool seldom(uint32_t number) {
  return number % 100 == 37 || (number != 0 && (number & (number - 1)) == 0);
}

JobSteps counted_job(std::vector<std::vector<TimedSample>> ranks) {
  std::vector<RankSteps> all;
  for (std::vector<TimedSample>& samples : ranks) {
    RankSteps& rank = all.emplace_back();
    for (size_t i = 0; i < kCountedSteps; ++i) {
      rank.steps.push_back(
          {.begin_ns = static_cast<int64_t>(i) * kCountedStepNs, .duration_ns = kCountedStepNs});
    }
    rank.shapes["a"] = std::move(samples);
  }
  return JobSteps(std::move(all));
}

}  // namespace

TEST_CASE("calls of a step: of a shape that was always there, that begins, and of which little is known") {
  const JobSteps job = counted_job({{}});
  const auto always = called([](size_t) { return 24; }, seldom);
  CHECK(calls_per_step(always, job, 0, {100, 200}).value_or(-1) == doctest::Approx(24).epsilon(0.02));
  const auto more = called([](size_t i) { return i < 100 ? 24 : 32; }, seldom);
  CHECK(calls_per_step(more, job, 0, {0, 100}).value_or(-1) == doctest::Approx(24).epsilon(0.02));
  CHECK(calls_per_step(more, job, 0, {100, 200}).value_or(-1) == doctest::Approx(32).epsilon(0.02));
  const auto late = called([](size_t i) { return i < 100 ? 0 : 8; }, seldom);
  CHECK(calls_per_step(late, job, 0, {0, 100}).value_or(-1) == 0);
  CHECK(calls_per_step(late, job, 0, {100, 200}).value_or(-1) == doctest::Approx(8).epsilon(0.05));
  // Timed in the first steps only, or not from its first call on.
  const auto early = called([](size_t) { return 24; }, [](uint32_t number) { return number < 480; });
  CHECK_FALSE(calls_per_step(early, job, 0, {100, 200}).has_value());
  const auto unseen = called([](size_t) { return 24; }, [](uint32_t number) { return number > 3600; });
  CHECK_FALSE(calls_per_step(unseen, job, 0, {0, 100}).has_value());
  CHECK(calls_per_step(unseen, job, 0, {100, 200}).value_or(-1) == doctest::Approx(24).epsilon(0.02));
  CHECK_FALSE(calls_per_step({}, job, 0, {0, 100}).has_value());
}

TEST_CASE("matmul work: more calls count, a slower GPU does not") {
  const auto usual_calls = [](float seconds) { return called([](size_t) { return 24; }, seldom, seconds); };
  const auto more = called([](size_t) { return 36; }, seldom);
  const auto work = matmul_work(counted_job({usual_calls(1e-3F), usual_calls(2e-3F), more}), {100, 200});
  CHECK(work[0].seconds == doctest::Approx(24e-3).epsilon(0.02));
  CHECK(work[1].seconds == doctest::Approx(24e-3).epsilon(0.02));
  CHECK(work[2].seconds == doctest::Approx(36e-3).epsilon(0.02));
  CHECK(work[2].calls == doctest::Approx(36).epsilon(0.02));
  // Of a rank whose calls are not known, nothing can be compared.
  const auto early = called([](size_t) { return 24; }, [](uint32_t number) { return number < 480; });
  CHECK(matmul_work(counted_job({usual_calls(1e-3F), early}), {100, 200})[0].calls == 0);
}
