// Times of traced functions by rank, and which rank takes longer.
#include "report/speed/analysis.h"

#include <doctest/doctest.h>

using namespace xpurun;
using model::Stage;
using report::RankRecord;

namespace {

constexpr int64_t kMs = 1'000'000;

// One rank; times in ms on its thread 7.
class Rank {
 public:
  explicit Rank(int rank) : input_{.rank = rank} {
    input_.functions.resize(1);
    input_.functions.front().names = {"", "m:outer", "m:inner", "m:tiny"};
    input_.spans.resize(1);
  }

  Rank& call(uint32_t name, int64_t begin, int64_t duration, uint32_t thread = 7) {
    input_.functions.front().spans.push_back({.begin_ns = begin * kMs,
                                              .duration_ns = duration * kMs,
                                              .stage = Stage::function,
                                              .name = name,
                                              .thread = thread});
    return *this;
  }
  Rank& stage(Stage stage, int64_t begin, int64_t duration) {
    input_.spans.front().spans.push_back(
        {.begin_ns = begin * kMs, .duration_ns = duration * kMs, .stage = stage, .thread = 7});
    return *this;
  }
  Rank& short_calls(uint32_t name, uint64_t calls, int64_t total_ns) {
    input_.functions.front().short_calls.push_back(
        {.begin_ns = kMs, .duration_ns = 2 * total_ns, .total_ns = total_ns, .calls = calls, .name = name});
    return *this;
  }
  const RankRecord& input() const { return input_; }

 private:
  RankRecord input_;
};

RankRecord even_rank(int rank, int64_t duration) {
  Rank out(rank);
  for (int64_t i = 0; i < 20; ++i) {
    out.call(1, 100 * i, duration + i % 2);
  }
  return out.input();
}

std::vector<model::FunctionTimes> times(const std::vector<RankRecord>& ranks) {
  return report::analyse_speed(ranks).functions;
}

}  // namespace

TEST_CASE("own time is the time outside of nested calls and stages of the same thread") {
  const Rank rank = Rank(0)
                        .call(2, 10, 20)
                        .call(1, 0, 100)
                        .call(2, 50, 10)
                        .call(2, 40, 30, 8)  // of another thread
                        .stage(Stage::garbage, 12, 3)
                        .stage(Stage::forward, 5, 500);  // inferred
  const auto found = times({rank.input()});
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "m:outer");
  CHECK(found[0].self_s == doctest::Approx(0.070));
  CHECK(found[1].calls == 3);
  CHECK(found[1].total_s == doctest::Approx(0.060));
  CHECK(found[1].self_s == doctest::Approx(0.057));
  CHECK(found[1].ranks[0].longest_s == doctest::Approx(0.030));
}

TEST_CASE("recursion counts each call, and own time once") {
  const auto found = times({Rank(0).call(1, 0, 100).call(1, 10, 80).call(1, 20, 60).input()});
  REQUIRE(found.size() == 1);
  CHECK(found[0].calls == 3);
  CHECK(found[0].self_s == doctest::Approx(0.100));
}

TEST_CASE("short calls count in number, total and mean, and shift the percentile") {
  Rank rank(0);
  rank.short_calls(1, 90, 9 * kMs).short_calls(3, 1000, kMs);
  for (int64_t i = 0; i < 10; ++i) {
    rank.call(1, 1000 * i, 1 + i);
  }
  const auto found = times({rank.input()});
  REQUIRE(found.size() == 2);
  CHECK(found[0].calls == 100);
  CHECK(found[0].ranks[0].short_calls == 90);
  CHECK(found[0].total_s == doctest::Approx(0.064));
  CHECK(found[0].mean_s == doctest::Approx(0.00064));
  CHECK(found[0].p99_s == doctest::Approx(0.0091));  // nine tenths of the ten long ones
  CHECK(found[1].name == "m:tiny");
  CHECK(found[1].p99_s < 0);
}

TEST_CASE("a rank whose mean is far above the others' is an outlier") {
  for (const int ranks : {2, 3, 8}) {
    std::vector<RankRecord> job;
    for (int r = 0; r < ranks; ++r) {
      job.push_back(even_rank(r, r == 1 ? 20 : 10 + r % 2));
    }
    const auto found = times(job);
    REQUIRE(found.size() == 1);
    CHECK(found[0].outliers == model::RankSet{1});
    CHECK(found[0].slowest == 1);
    CHECK(found[0].slowest_mean_s == doctest::Approx(0.0205));
  }
  CHECK(times({even_rank(0, 10), even_rank(1, 11), even_rank(2, 12)})[0].outliers.empty());
  CHECK(times({even_rank(0, 10)})[0].outliers.empty());
  // Too few calls of the slow rank.
  CHECK(times({even_rank(0, 10), Rank(1).call(1, 0, 50).input()})[0].outliers.empty());
}

TEST_CASE("functions are no part of steps") {
  std::vector<RankRecord> job{even_rank(0, 90)};
  for (int64_t i = 0; i < 20; ++i) {
    auto& spans = job[0].spans.front().spans;
    spans.push_back(
        {.begin_ns = (100 * i + 10) * kMs, .duration_ns = 30 * kMs, .cpu_ns = kMs, .stage = Stage::data});
    spans.push_back({.begin_ns = (100 * i + 50) * kMs, .duration_ns = 20 * kMs, .stage = Stage::optimizer});
    spans.back().thread = spans[spans.size() - 2].thread = 7;
  }
  const model::SpeedReport with = report::analyse_speed(job);
  job[0].functions.clear();
  const model::SpeedReport without = report::analyse_speed(job);
  CHECK(with.functions.size() == 1);
  CHECK(with.steps == without.steps);
  CHECK(with.source == without.source);
  CHECK(with.source != model::StepSource::none);
  REQUIRE(with.ranks.size() == 1);
  CHECK(with.ranks[0].stages.seconds == without.ranks[0].stages.seconds);
}
