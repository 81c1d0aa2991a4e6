#include "launcher/speed/straggler_watch.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using model::Span;
using model::Stage;

namespace {

struct StragglerScene {
  StragglerWatch watch;
  uint64_t steps = 0;

  // 50 steps of 100 ms, in which each rank waits for so many ms in the backward pass. The rank that is told
  // of, or -1.
  int look(const std::vector<int>& waits_ms) {
    constexpr int64_t kMs = 1'000'000;
    std::map<base::Rank, StragglerWatch::Steps> seen;
    steps += 50;
    for (size_t r = 0; r < waits_ms.size(); ++r) {
      const auto rank = static_cast<base::Rank>(r);
      for (int i = 0; i < 50; ++i) {
        watch.add(
            rank,
            std::array{
                Span{.duration_ns = 80 * kMs, .cpu_ns = (80 - waits_ms[r]) * kMs, .stage = Stage::backward},
                Span{.duration_ns = 15 * kMs, .cpu_ns = 0, .stage = Stage::data}},
            {});
      }
      seen[rank] = {steps, 0.1};
    }
    const auto found = watch.look(seen);
    return found ? static_cast<int>(found->rank) : -1;
  }
};

}  // namespace

TEST_CASE("straggler watch: the rank that the others wait for, in two windows one after the other") {
  StragglerScene s;
  CHECK(s.look({60, 0, 60, 60}) == -1);
  CHECK(s.look({60, 0, 60, 60}) == 1);
  CHECK(s.look({60, 0, 60, 60}) == -1);  // once
}

TEST_CASE("straggler watch: the rank is over, or was chance, and may be found again") {
  StragglerScene s;
  s.look({60, 0, 60, 60});
  REQUIRE(s.look({60, 0, 60, 60}) == 1);
  CHECK(s.watch.take_over() == base::kNoRank);
  SUBCASE("over") {
    s.look({60, 45, 60, 60});  // less, but not over
    s.look({60, 45, 60, 60});
    CHECK(s.watch.take_over() == base::kNoRank);
    s.look({60, 60, 60, 60});
    CHECK(s.watch.take_over() == base::kNoRank);  // one window is no sign
    s.look({60, 60, 60, 60});
    CHECK(s.watch.take_over() == 1);
    CHECK(s.watch.take_over() == base::kNoRank);
  }
  SUBCASE("chance") {
    s.watch.forget();
  }
  CHECK(s.look({60, 60, 0, 60}) == -1);
  CHECK(s.look({60, 60, 0, 60}) == 2);
}

TEST_CASE("straggler watch: healthy jobs") {
  StragglerScene s;
  SUBCASE("all wait equally long") {
    for (int i = 0; i < 5; ++i) {
      CHECK(s.look({30, 31, 29, 30}) == -1);
    }
  }
  SUBCASE("each time another rank is late") {
    for (int i = 0; i < 4; ++i) {
      std::vector<int> waits(4, 60);
      waits[static_cast<size_t>(i)] = 0;
      CHECK(s.look(waits) == -1);
    }
  }
  SUBCASE("half of the ranks are late") {
    CHECK(s.look({60, 0, 60, 0}) == -1);
    CHECK(s.look({60, 0, 60, 0}) == -1);
  }
  SUBCASE("one rank") {
    CHECK(s.look({0}) == -1);
    CHECK(s.look({0}) == -1);
  }
}

TEST_CASE("straggler watch: waits for enough steps of all ranks") {
  StragglerWatch watch;
  CHECK_FALSE(watch.look({{0, {39, 0.1}}, {1, {100, 0.1}}}));
  CHECK_FALSE(watch.look({{0, {100, -1}}, {1, {100, 0.1}}}));
}

TEST_CASE("straggler watch: calls of torch.distributed, which have no CPU time") {
  constexpr int64_t kMs = 1'000'000;
  const std::vector<std::string> names{"", "abc.0", "abc.0 0>1"};
  // 50 steps of 100 ms; rank 1 comes 60 ms late to a call in the backward pass, or after it.
  const auto found = [&](bool inside, uint32_t group) {
    StragglerWatch watch;
    std::optional<StragglerWatch::Straggler> out;
    for (uint64_t look = 1; look <= 2; ++look) {
      for (const base::Rank rank : {0, 1}) {
        for (int i = 0; i < 50; ++i) {
          const int64_t wait = rank == 0 ? 60 * kMs : kMs;
          const Span call{.begin_ns = 20 * kMs,
                          .duration_ns = wait,
                          .stage = Stage::communication,
                          .group = group,
                          .sequence = 1};
          const int64_t length = 10 * kMs + (inside ? wait : 0);
          const Span pass{.begin_ns = 15 * kMs - (inside ? 0 : 12 * kMs),
                          .duration_ns = length,
                          .cpu_ns = 10 * kMs,
                          .stage = Stage::backward};
          watch.add(rank, inside ? std::array{call, pass} : std::array{pass, call}, names);
        }
      }
      out = watch.look({{0, {50 * look, 0.1}}, {1, {50 * look, 0.1}}});
    }
    return out;
  };
  for (const bool inside : {false, true}) {
    INFO("inside the pass: ", inside);
    const auto late = found(inside, 1);
    REQUIRE(late);
    CHECK(late->rank == 1);
    CHECK(late->share == doctest::Approx(0.59));  // counted once
  }
  CHECK_FALSE(found(false, 2));  // messages
}

TEST_CASE("straggler watch: a rank that takes no part in the calls of the others keeps nobody waiting") {
  constexpr int64_t kMs = 1'000'000;
  StragglerWatch watch;
  for (uint64_t look = 1; look <= 2; ++look) {
    for (int i = 0; i < 150; ++i) {
      watch.add(i % 3,
                std::array{Span{.duration_ns = i % 3 == 0 ? 0 : 60 * kMs,
                                .stage = i % 3 == 0 ? Stage::data : Stage::communication,
                                .group = 1,
                                .sequence = 1}},
                {"", "abc.1"});
    }
    CHECK_FALSE(watch.look({{0, {50 * look, 0.1}}, {1, {50 * look, 0.1}}, {2, {50 * look, 0.1}}}));
  }
}
