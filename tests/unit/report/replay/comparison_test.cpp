#include "report/replay/comparison.h"

#include "report/replay/tables.h"
#include "tests/unit/report/operations/made_events.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using tests::kAllReduce;
using tests::kMatmul;
using tests::kSend;

namespace {

constexpr double kFlop = 2e9;

// 100 matmuls of this duration, one each ms.
RankRecord rank_with(base::Rank rank, int world, double matmul_us) {
  RankRecord out = tests::made_rank(rank, world);
  for (uint32_t i = 0; i < 100; ++i) {
    tests::add_call(out, kMatmul, 1000.0 * i, matmul_us, i);
  }
  return out;
}

RunOperations run_of(const std::vector<double>& matmul_us) {
  RunOperationCollector collector;
  for (size_t r = 0; r < matmul_us.size(); ++r) {
    collector.add(rank_with(static_cast<base::Rank>(r), static_cast<int>(matmul_us.size()), matmul_us[r]));
  }
  return collector.finish();
}

Measurements replayed(double us) {
  Measurements out;
  out.device.name = "NVIDIA H200";
  out.matmuls.push_back({.ns = {us * 900, us * 1000, us * 1000, us * 1100}, .sm_clock_mhz = 1700});
  return out;
}

}  // namespace

TEST_CASE("calls that are equal are one operation; the most time comes first") {
  RankRecord rank = tests::made_rank(0, 1);
  model::EventFile& file = rank.events[0];
  file.ops[20] = file.ops[kMatmul];
  file.ops[20].key.peer = 5;  // not a part of the problem
  file.ops[21] = file.ops[kMatmul];
  file.ops[21].key.epilogue = 4;
  for (uint32_t i = 0; i < 10; ++i) {
    tests::add_call(rank, kMatmul, 1000.0 * i, 100, i);
    tests::add_call(rank, 20, 1000.0 * i + 200, 120, i);
    tests::add_call(rank, 21, 1000.0 * i + 400, 300, i);
  }
  RunOperationCollector collector;
  collector.add(rank);
  const RunOperations run = collector.finish();
  REQUIRE(run.matmuls.size() == 2);
  CHECK(run.matmuls[0].key.epilogue == 4);
  CHECK(run.matmuls[0].count == 10);
  CHECK(run.matmuls[1].count == 20);
  CHECK(run.matmuls[1].median_s == doctest::Approx(110e-6));
  CHECK(run.matmuls[1].flop == 2'000'000'000);
}

TEST_CASE("matmuls beside a collective are no measure of the GPU") {
  // Rank 1 makes half of its matmuls, which take 150 us, while an all-reduce runs.
  std::vector<RankRecord> ranks{rank_with(0, 3, 100), tests::made_rank(1, 3), tests::made_rank(2, 3)};
  for (uint32_t i = 0; i < 100; ++i) {
    tests::add_call(ranks[1], kMatmul, 1000.0 * i, i % 2 == 0 ? 150 : 100, i);
    if (i % 2 == 0) {
      tests::add_call(ranks[1], kAllReduce, 1000.0 * i + 100, 300, i + 1);
    }
    // All of rank 2's: shown, but neither judged nor a part of the median.
    tests::add_call(ranks[2], kMatmul, 1000.0 * i, 400, i);
    tests::add_call(ranks[2], kAllReduce, 1000.0 * i + 100, 300, i + 1);
  }
  RunOperationCollector collector;
  for (const RankRecord& rank : ranks) {
    collector.add(rank);
  }
  const RunOperations run = collector.finish();
  REQUIRE(run.matmuls.size() == 1);
  CHECK(run.matmuls[0].count == 150);
  CHECK(run.matmuls[0].overlapped == 150);
  CHECK(run.matmuls[0].median_s == doctest::Approx(100e-6));
  CHECK(run.matmuls[0].ranks[1].median_s == doctest::Approx(100e-6));
  const model::Replay replay = compare_with_replay(run, replayed(100), 0.9);
  CHECK(replay.slow.empty());
  CHECK(replay.matmuls[0].ranks[2].only_overlapped);
  CHECK_FALSE(replay.matmuls[0].ranks[2].slow);
  CHECK(replay.matmuls[0].of_replay == doctest::Approx(1));
  CHECK(replay.notes.back() == "150 timed matmuls beside a collective are left out: both share the GPU");
}

TEST_CASE("calls that were not timed count by their numbers") {
  RankRecord rank = tests::made_rank(0, 1);
  rank.events[0].ops[20] = rank.events[0].ops[kMatmul];
  rank.events[0].ops[20].key.m = 7;
  for (uint32_t i = 0; i < 10; ++i) {
    tests::add_call(rank, kMatmul, 1000.0 * i, 100, i);
    tests::add_call(rank, 20, 1000.0 * i + 500, 50, 8 * i);  // every eighth was timed
  }
  RunOperationCollector collector;
  collector.add(rank);
  const RunOperations run = collector.finish();
  CHECK(run.matmuls[0].key.m == 7);
  CHECK(run.matmuls[0].total_s == doctest::Approx(10 * 50e-6 * 8));
  CHECK(run.matmuls[1].total_s == doctest::Approx(10 * 100e-6));
}

TEST_CASE("host times and shapes without a record are left out") {
  RankRecord rank = tests::made_rank(0, 1);
  tests::add_call(rank, kMatmul, 0, 100, 0, wire::Source::host_query);
  rank.events[0].ops[20] = rank.events[0].ops[kMatmul];
  rank.events[0].ops[20].key.flags = wire::kOpOther;
  tests::add_call(rank, 20, 500, 100, 0);
  RunOperationCollector collector;
  collector.add(rank);
  const RunOperations run = collector.finish();
  CHECK(run.matmuls.empty());
  CHECK(run.other_calls == 1);
}

TEST_CASE("a collective takes as long as for the rank that came last") {
  RunOperationCollector collector;
  for (base::Rank r = 0; r < 4; ++r) {
    RankRecord rank = tests::made_rank(r, 4);
    for (uint32_t i = 1; i <= 9; ++i) {
      // Rank 2 is the last one.
      tests::add_call(rank, kAllReduce, 1000.0 * i, r == 2 ? 40 : 400, i, wire::Source::nccl_profiler);
    }
    tests::add_call(rank, kSend, 20'000, 7, 0, wire::Source::nccl_profiler);
    collector.add(rank);
  }
  const RunOperations run = collector.finish();
  REQUIRE(run.collectives.size() == 1);
  CHECK(run.collectives[0].count == 9);
  CHECK(run.collectives[0].size == 4);
  CHECK(run.collectives[0].bytes == 1'000'000);
  CHECK(run.collectives[0].transfer_s == doctest::Approx(40e-6));
}

TEST_CASE("the share of the time in matmuls") {
  CHECK(run_of({300}).busy == doctest::Approx(0.3).epsilon(0.02));
  CHECK(RunOperationCollector().finish().busy == 0);
  // Before the first matmul and after the last one, a rank starts and saves.
  RankRecord rank = rank_with(0, 1, 300);
  tests::add_call(rank, tests::kCopy, 9e6, 10, 0);
  RunOperationCollector collector;
  collector.add(rank);
  CHECK(collector.finish().busy == doctest::Approx(0.3).epsilon(0.02));
}

TEST_CASE("a rank below the factor is slow") {
  const RunOperations run = run_of({100, 100, 100, 125});
  const model::Replay r = compare_with_replay(run, replayed(80), 0.9);
  REQUIRE(r.matmuls.size() == 1);
  const model::ReplayedMatmul& m = r.matmuls[0];
  CHECK(m.tflops == doctest::Approx(kFlop / 100e-6 / 1e12));
  CHECK(m.replay_tflops == doctest::Approx(kFlop / 80e-6 / 1e12));
  CHECK(m.of_replay == doctest::Approx(0.8));
  CHECK(m.replay.p10_s < m.replay.median_s);
  CHECK(m.ranks[3].slow);
  CHECK(m.ranks[3].of_median == doctest::Approx(0.8));
  CHECK(m.ranks[3].of_replay == doctest::Approx(0.64));
  CHECK_FALSE(m.ranks[0].slow);
  CHECK(r.slow == model::RankSet{3});
  CHECK(r.covered == doctest::Approx(1));
  CHECK(r.sentence ==
        "rank 3 is slower than 0.90 x the median of the ranks; the matmuls of the run reached 75 % of the "
        "replayed speed");
  CHECK(compare_with_replay(run, replayed(80), 0.75).slow.empty());
  CHECK(compare_with_replay(run, replayed(80), 0.75).sentence.starts_with("no rank is slower"));
}

TEST_CASE("a single rank is compared with the replay alone") {
  const model::Replay r = compare_with_replay(run_of({100}), replayed(50), 0.9);
  CHECK(r.slow.empty());
  CHECK(r.ranks[0].of_replay == doctest::Approx(0.5));
  CHECK(r.sentence == "the matmuls of the run reached 50 % of the replayed speed");
}

TEST_CASE("an operation that was skipped has a reason and no numbers") {
  Measurements measured;
  measured.matmuls.push_back({.skipped = "too large"});
  const model::Replay r = compare_with_replay(run_of({100, 100}), std::move(measured), 0.9);
  CHECK(r.matmuls[0].replay.skipped == "too large");
  CHECK(r.matmuls[0].replay_tflops == -1);
  CHECK(r.covered == 0);
  CHECK(r.sentence == "no rank is slower than 0.90 x the median of the ranks; no matmul could be replayed");
}

TEST_CASE("notes say what the numbers rest on") {
  Measurements measured = replayed(80);
  measured.device.name = "NVIDIA A100";
  measured.matmuls[0].tf32 = true;
  const model::Replay r = compare_with_replay(run_of({100}), std::move(measured), 0.9);
  REQUIRE(r.notes.size() == 3);
  CHECK(r.notes[0] == "the run used NVIDIA H200, this GPU is NVIDIA A100: the speeds are not comparable");
  CHECK(r.notes[2].find("TF32") != std::string::npos);
}

TEST_CASE("tables without rows are left out") {
  const model::Replay r = compare_with_replay(run_of({100, 130}), replayed(80), 0.9);
  const auto tables = replay_tables(r, 1);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].rows.size() == 1);
  CHECK(tables[1].id == "ranks");
  CHECK(tables[1].rows.size() == 1);
  CHECK(tables[1].all_rows == 2);
  CHECK(tables[1].rows[0][0] == "1");  // the slowest
  for (const TextTable& table : tables) {
    CHECK(table.rows[0].size() == table.columns.size());
  }
}
