// The windows in which ranks are compared: looks at GPUs, or ten seconds of spans.
#include "launcher/timing/lateness_watch.h"
#include "launcher/timing/slow_rank_watch.h"

#include <doctest/doctest.h>

#include <memory>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kMilli = 1'000'000;
constexpr base::MonoNs kWholeSecond = 1'000 * kMilli;

// Memory of a rank with a collective (op 1) and a matmul (op 2).
struct Memory {
  std::unique_ptr<wire::Segment> segment = std::make_unique<wire::Segment>();

  Memory() {
    segment->ops[1].key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
    segment->ops[1].key.comm = 0;
    segment->ops[2].key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
    segment->comms[0].identity = 77;
    segment->comms[0].nranks = 2;
  }
};

wire::Event timed_event(base::MonoNs begin, uint32_t op, uint32_t sequence) {
  return {.begin_ns = static_cast<uint64_t>(begin),
          .duration_ns = static_cast<uint64_t>(5 * kMilli),
          .op = op,
          .sequence = sequence};
}

// Rank 1 is 2 ms late in each of the steps of 10 ms between the times.
void run_job(LatenessWatch& watch, const Memory& memory, base::MonoNs from, base::MonoNs until) {
  for (base::MonoNs at = from; at < until; at += 10 * kMilli) {
    const auto number = static_cast<uint32_t>(at / (10 * kMilli)) + 1;
    watch.add(0, std::vector{timed_event(at, 1, number), timed_event(at, 2, number)}, *memory.segment);
    watch.add(1, std::vector{timed_event(at + 2 * kMilli, 1, number)}, *memory.segment);
  }
}

}  // namespace

TEST_CASE("lateness watch: the collectives of a look, and only these") {
  const Memory memory;
  LatenessWatch watch;
  run_job(watch, memory, 1 * kWholeSecond, 2 * kWholeSecond);
  watch.looking(true, 2 * kWholeSecond);
  run_job(watch, memory, 2 * kWholeSecond, 3 * kWholeSecond);
  watch.looking(false, 3 * kWholeSecond);
  run_job(watch, memory, 3 * kWholeSecond, 4 * kWholeSecond);
  watch.tick(3 * kWholeSecond + kWholeSecond / 2);
  CHECK(watch.of(1).looked_s == 0);  // late events may still come
  watch.tick(4 * kWholeSecond + 1);
  CHECK(watch.of(1).late_s == doctest::Approx(100 * 0.002));
  CHECK(watch.of(1).looked_s == doctest::Approx(1).epsilon(0.02));
  CHECK(watch.of(0).exposed_share == 0);  // the matmul hides all
  CHECK(watch.of(1).exposed_share == doctest::Approx(0.5).epsilon(0.02));
  watch.tick(9 * kWholeSecond);
  CHECK(watch.of(1).late_s == doctest::Approx(100 * 0.002));
}

TEST_CASE("lateness watch: begins by the host's clock are left out") {
  const Memory memory;
  LatenessWatch watch;
  watch.looking(true, 1);
  for (const base::Rank rank : {0, 1}) {
    wire::Event event = timed_event(kWholeSecond, 1, 1);
    event.flags = wire::kEventHostBegin;
    watch.add(rank, std::vector{event}, *memory.segment);
  }
  watch.looking(false, 2 * kWholeSecond);
  watch.tick(9 * kWholeSecond);
  CHECK(watch.of(0).looked_s == 0);
}

TEST_CASE("lateness watch: calls of torch.distributed, ten seconds at a time") {
  // The ranks number their texts differently.
  const std::vector<std::string> names[] = {{"", "all_reduce", "dp"}, {"", "dp", "all_reduce"}};
  LatenessWatch watch;
  for (int step = 0; step < 300; ++step) {
    for (const base::Rank rank : {0, 1}) {
      const model::Span span{.begin_ns = 1 + step * 100 * kMilli + (rank == 1 ? 20 * kMilli : 0),
                             .duration_ns = 30 * kMilli,
                             .stage = model::Stage::communication,
                             .group = rank == 0 ? 2U : 1U,
                             .sequence = static_cast<uint64_t>(step) + 1};
      watch.add(rank, std::vector{span}, names[rank]);
    }
    if (step == 50) {
      CHECK(watch.of(1).looked_s == 0);
    }
  }
  CHECK(watch.of(1).late_share == doctest::Approx(0.2).epsilon(0.02));
  CHECK(watch.of(0).late_s == 0);
  CHECK(watch.of(1).looked_s == doctest::Approx(20).epsilon(0.02));
}

TEST_CASE("slow rank watch: a rank is told once, when two looks in a row show it") {
  SlowRankWatch watch;
  std::map<base::Rank, RankLateness> ranks;
  const auto look = [&](double of_0, double of_1) {
    for (const auto& [rank, share] : {std::pair<base::Rank, double>{0, of_0}, {1, of_1}}) {
      ranks[rank].looked_s += 2;
      ranks[rank].cost_s += 2 * share;
    }
    return watch.look(ranks);
  };
  CHECK_FALSE(look(0.05, 0.4));
  CHECK(watch.suspects());
  CHECK_FALSE(look(0.3, 0.02));  // another rank: both may warm up
  CHECK_FALSE(look(0.01, 0.02));
  CHECK_FALSE(watch.suspects());
  CHECK_FALSE(look(0.01, 0.4));
  const auto found = look(0.01, 0.3);
  REQUIRE(found);
  CHECK(found->rank == 1);
  CHECK(found->share == doctest::Approx(0.3));
  CHECK_FALSE(look(0.01, 0.5));
  CHECK_FALSE(watch.suspects());
}

TEST_CASE("slow rank watch: a small wait is enough once the steps take a little longer") {
  SlowRankWatch watch;
  std::map<base::Rank, RankLateness> ranks;
  const auto look = [&] {
    ranks[1].looked_s += 2;
    ranks[1].cost_s += 2 * 0.12;
    return watch.look(ranks);
  };
  CHECK_FALSE(look());
  CHECK_FALSE(look());
  watch.expect_one();
  CHECK_FALSE(look());
  CHECK(watch.suspects());
  CHECK(look());
}
