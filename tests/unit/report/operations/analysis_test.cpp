#include "report/operations/analysis.h"

#include "report/operations/tables/text_tables.h"
#include "tests/unit/report/operations/made_events.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;

namespace {

model::OperationTables analysed(const std::vector<RankRecord>& ranks) {
  OperationAnalysis analysis;
  for (const RankRecord& rank : ranks) {
    analysis.add(rank);
  }
  return analysis.finish();
}

// Steps of 1 ms: a matmul of 100 us, of 130 us on the slow rank, then an all-reduce that ends on all ranks
// at 300 us, and a copy. Numbers are assigned by the place in `numbers`.
std::vector<RankRecord> job(const std::vector<base::Rank>& numbers, int steps, size_t slow) {
  std::vector<RankRecord> out;
  for (size_t r = 0; r < numbers.size(); ++r) {
    RankRecord rank = made_rank(numbers[r], static_cast<int>(numbers.size()));
    const double matmul = r == slow ? 130 : 100;
    for (int i = 0; i < steps; ++i) {
      const double at = 1000.0 * i;
      const auto number = static_cast<uint32_t>(i);
      add_call(rank, kMatmul, at, matmul, number);
      add_call(rank, kAllReduce, at + matmul, 300 - matmul, number + 1, wire::Source::nccl_profiler);
      add_call(rank, kCopy, at + 320, 4, number);
    }
    out.push_back(std::move(rank));
  }
  return out;
}

}  // namespace

TEST_CASE("matmuls, collectives and copies become rows") {
  const model::OperationTables o = analysed(job({0, 1, 2, 3}, 50, 2));
  REQUIRE(o.matmuls.size() == 1);
  const model::MatmulRow& m = o.matmuls[0];
  CHECK(m.shape == "1000x1000x1000");
  CHECK(m.types == "bf16");
  CHECK(m.transposes == "TN");
  CHECK(m.times.count == 200);
  CHECK(m.times.calls == doctest::Approx(200));
  CHECK(m.times.median_s == doctest::Approx(100e-6).epsilon(0.01));
  CHECK(m.times.p99_s == doctest::Approx(130e-6).epsilon(0.01));
  CHECK(m.times.total_s == doctest::Approx(50 * 430e-6));
  CHECK(m.times.sources == "events");
  CHECK(m.tflops == doctest::Approx(20).epsilon(0.01));
  CHECK(m.peak_share == doctest::Approx(20 / 989.4).epsilon(0.01));
  REQUIRE(m.slowest.size() == 4);
  CHECK(m.slowest[0].rank == 2);
  CHECK(m.slowest[0].excess == doctest::Approx(0.3));

  REQUIRE(o.collectives.size() == 1);
  const model::CollectiveRow& c = o.collectives[0];
  CHECK(c.communicator == "dp");
  CHECK(c.group == "all ranks");
  CHECK(c.members == "0-3");
  CHECK(c.operation == "AllReduce");
  CHECK(c.type == "bf16");
  CHECK(c.times.sources == "nccl_profiler");
  CHECK(c.algorithm_gb_s == doctest::Approx(5).epsilon(0.01));  // 1 MB in 200 us
  CHECK(c.bus_gb_s == doctest::Approx(7.5).epsilon(0.01));
  REQUIRE(c.ranks.size() == 4);
  CHECK(c.ranks[2].rank == 2);
  CHECK(c.ranks[2].count == 50);
  CHECK(c.ranks[2].algorithm_gb_s == doctest::Approx(1 / 0.17).epsilon(0.01));
  CHECK(c.ranks[2].bus_gb_s == doctest::Approx(1.5 / 0.17).epsilon(0.01));
  CHECK(c.lateness.meetings == 50);
  CHECK(c.lateness.transfer_s == doctest::Approx(170e-6).epsilon(0.01));
  CHECK(c.transfer_algorithm_gb_s == doctest::Approx(1 / 0.17).epsilon(0.01));
  CHECK(c.lateness.wait_s == doctest::Approx(50 * 3 * 30e-6));
  REQUIRE(c.lateness.ranks.size() == 1);
  CHECK(c.lateness.ranks[0].rank == 2);
  CHECK(c.lateness.ranks[0].times == 50);

  REQUIRE(o.memory.size() == 1);
  CHECK(o.memory[0].operation == "cudaMemcpyAsync H2D, pinned");
  CHECK(o.memory[0].gb_s == doctest::Approx(1.024).epsilon(0.01));

  REQUIRE(o.ranks.size() == 4);
  CHECK(o.ranks[0].exact);
  CHECK(o.ranks[0].exposed_share == doctest::Approx(1));
  CHECK(o.ranks[0].untraced_share == 0);
  CHECK(o.left_out == 0);
}

TEST_CASE("calls that were not timed are counted by the numbers of the others") {
  RankRecord rank = made_rank(0, 1);
  for (uint32_t i = 0; i < 20; ++i) {
    add_call(rank, kMatmul, 1000.0 * i, 100, 10 * i);
    add_call(rank, kKernel, 1000.0 * i + 500, 25, 80 * i);
  }
  const model::OperationTables o = analysed({rank});
  REQUIRE(o.matmuls.size() == 1);
  CHECK(o.matmuls[0].times.count == 20);
  CHECK(o.matmuls[0].times.calls == doctest::Approx(200));
  CHECK(o.matmuls[0].slowest.empty());  // one rank is not compared
  REQUIRE(o.ranks.size() == 1);
  CHECK_FALSE(o.ranks[0].exact);
  CHECK(o.ranks[0].timed_share == doctest::Approx(40.0 / 1800));
  CHECK(o.ranks[0].compute_s == doctest::Approx(200 * 100e-6 + 1600 * 25e-6));
  CHECK(o.ranks[0].untraced_share == doctest::Approx(2.0 / 3));
  CHECK(o.ranks[0].idle_s < 0);
  const auto tables = text_tables(o, 10);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].about.find("2 % of the calls were timed") == 0);
  CHECK(tables[0].about.find("up to 67 %") != std::string::npos);
  CHECK(tables[1].about.find("20 calls were timed of about 200") == 0);
}

TEST_CASE("sends have no numbers, so their calls are not counted") {
  RankRecord rank = made_rank(0, 2);
  for (int i = 0; i < 5; ++i) {
    add_call(rank, kSend, 1000.0 * i, 100, 0);
  }
  const model::OperationTables o = analysed({rank});
  REQUIRE(o.collectives.size() == 1);
  CHECK(o.collectives[0].operation == "SendRecv");
  CHECK(o.collectives[0].times.calls < 0);
  CHECK(o.collectives[0].lateness.meetings == 0);
  CHECK(o.ranks[0].timed_share < 0);
}

TEST_CASE("a begin by the host's clock makes nobody late") {
  std::vector<RankRecord> ranks = job({0, 1}, 10, 1);
  for (model::EventFile::Entry& entry : ranks[1].events[0].events) {
    entry.event.flags = wire::kEventHostBegin;
  }
  const model::OperationTables o = analysed(ranks);
  CHECK(o.collectives[0].lateness.meetings == 0);
  CHECK(o.collectives[0].transfer_bus_gb_s < 0);
  CHECK(o.ranks[0].exact);
  CHECK_FALSE(o.ranks[1].exact);
  CHECK(o.ranks[1].exposed_share < 0);
}

TEST_CASE("peaks of different GPUs are not mixed") {
  std::vector<RankRecord> ranks = job({0, 1}, 10, 9);
  ranks[1].events[0].header.gpu = "NVIDIA A100";
  CHECK(analysed(ranks).matmuls[0].peak_share < 0);
  for (RankRecord& rank : ranks) {
    rank.events[0].header.gpu = "Unheard-of 1";
  }
  CHECK(analysed(ranks).matmuls[0].peak_share < 0);
}

TEST_CASE("renumbering the ranks changes their numbers only") {
  const model::OperationTables a = analysed(job({0, 1, 2}, 20, 1));
  const model::OperationTables b = analysed(job({8, 3, 5}, 20, 1));
  CHECK(b.matmuls[0].times.median_s == a.matmuls[0].times.median_s);
  CHECK(b.matmuls[0].slowest[0].excess == a.matmuls[0].slowest[0].excess);
  CHECK(a.matmuls[0].slowest[0].rank == 1);
  CHECK(b.matmuls[0].slowest[0].rank == 3);
  CHECK(b.collectives[0].lateness.wait_s == a.collectives[0].lateness.wait_s);
  CHECK(b.collectives[0].lateness.ranks[0].rank == 3);
}

TEST_CASE("a file may end in the middle of the calls") {
  std::vector<RankRecord> whole = job({0, 1}, 40, 1);
  std::vector<RankRecord> parts = whole;
  for (RankRecord& rank : parts) {
    rank.events.push_back(rank.events[0]);
    auto& first = rank.events[0].events;
    auto& second = rank.events[1].events;
    first.resize(61);
    second.erase(second.begin(), second.begin() + 61);
  }
  const model::OperationTables a = analysed(whole);
  const model::OperationTables b = analysed(parts);
  CHECK(b.matmuls[0].times.calls == doctest::Approx(a.matmuls[0].times.calls));
  CHECK(b.collectives[0].lateness.wait_s == doctest::Approx(a.collectives[0].lateness.wait_s));
  CHECK(b.ranks[1].compute_s == doctest::Approx(a.ranks[1].compute_s));
  CHECK(b.ranks[1].exact);
}

TEST_CASE("calls of torch.distributed in the spans become rows") {
  std::vector<RankRecord> ranks(2);
  for (size_t r = 0; r < 2; ++r) {
    ranks[r].rank = static_cast<base::Rank>(r);
    model::SpanFile& file = ranks[r].spans.emplace_back();
    file.names = {"", "all_reduce", "train.py:40 (main)", "world", "barrier"};
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t late = r == 1 ? 30'000'000 : 0;
      file.spans.push_back({.begin_ns = i * 100'000'000 + late,
                            .duration_ns = 50'000'000 - late,
                            .stage = model::Stage::communication,
                            .name = 1,
                            .place = 2,
                            .group = 3,
                            .sequence = static_cast<uint64_t>(i) + 1,
                            .bytes = 4096});
    }
    file.spans.push_back({.begin_ns = 1'990'000'000,
                          .duration_ns = 10'000'000,
                          .stage = model::Stage::communication,
                          .name = 4});
    file.lost = 3;
  }
  // Calls without spans, at the place of the others.
  ranks[0].spans[0].short_calls.push_back({.begin_ns = 0,
                                           .duration_ns = 1'000'000'000,
                                           .total_ns = 500'000'000,
                                           .calls = 60,
                                           .name = 1,
                                           .place = 2});
  const model::OperationTables o = analysed(ranks);
  CHECK(o.ranks.empty());
  CHECK(o.lost == 6);
  REQUIRE(o.program_calls.size() == 2);
  const model::ProgramCallRow& row = o.program_calls[0];
  CHECK(row.function == "all_reduce");
  CHECK(row.place == "train.py:40 (main)");
  CHECK(row.ranks == "0-1");
  CHECK(row.mean_bytes == 4096);
  CHECK(row.times.count == 40);
  CHECK(row.times.calls == 100);
  CHECK(row.times.total_s == doctest::Approx(20 * 0.07));
  CHECK(row.share == doctest::Approx((1.5 / 2.0 + 0.4 / 1.97) / 2).epsilon(0.001));
  REQUIRE(row.lateness.ranks.size() == 1);
  CHECK(row.lateness.ranks[0].rank == 1);
  CHECK(row.lateness.wait_s == doctest::Approx(20 * 0.03));
  CHECK(row.lateness.transfer_s == doctest::Approx(0.02).epsilon(0.01));
  CHECK(o.program_calls[1].lateness.meetings == 0);
}

TEST_CASE("groups of ranks are recognised") {
  std::vector<RankRecord> ranks;
  for (base::Rank r = 0; r < 4; ++r) {
    RankRecord rank = made_rank(r, 2);
    rank.events[0].communicators[0].identity = 0x10 + static_cast<uint64_t>(r) / 2;
    rank.events[0].communicators[0].name = "";
    add_call(rank, kAllReduce, 0, 10, 1);
    ranks.push_back(std::move(rank));
  }
  const model::OperationTables o = analysed(ranks);
  REQUIRE(o.collectives.size() == 2);
  for (const model::CollectiveRow& row : o.collectives) {
    CHECK(row.group == "2 by 1");
    CHECK(row.communicator.empty());
  }
  CHECK(text_tables(o, 1)[1].all_rows == 2);
}

TEST_CASE("impossible times are left out") {
  RankRecord rank = made_rank(0, 1);
  add_call(rank, kMatmul, 0, 10, 0);
  add_call(rank, kMatmul, 0, 10, 1).duration_ns = ~uint64_t{0};
  add_call(rank, kMatmul, 0, 10, 2).begin_ns = ~uint64_t{0} - 5;
  add_call(rank, kMatmul, 0, 10, 3).op = 99;
  CHECK(analysed({rank}).matmuls[0].times.count == 1);
}

TEST_CASE("ranks of other roles do other work and are not compared") {
  // Two stages of a pipeline with two ranks each. The second one has a shape of its own, and needs longer for
  // the few matmuls of the first one's shape.
  constexpr uint32_t kOther = 9;
  for (const double slow_us : {130.0, 200.0}) {
    std::vector<RankRecord> ranks;
    for (base::Rank r = 0; r < 4; ++r) {
      RankRecord rank = made_rank(r, 4);
      rank.events.back().ops[kOther] = rank.events.back().ops[kMatmul];
      rank.events.back().ops[kOther].key.m = 4000;
      for (uint32_t i = 0; i < 50; ++i) {
        const bool own = r >= 2 && i >= 10;
        add_call(rank, own ? kOther : kMatmul, 1000.0 * i,
                 own      ? 400
                 : r == 3 ? slow_us
                 : r == 2 ? 130
                          : 100,
                 own ? i - 10 : i);
      }
      ranks.push_back(std::move(rank));
    }
    const model::OperationTables o = analysed(ranks);
    REQUIRE(o.matmuls.size() == 2);
    for (const model::MatmulRow& m : o.matmuls) {
      for (const model::SlowestRank& one : m.slowest) {
        const bool outlier = m.shape == "1000x1000x1000" && one.rank == 3 && slow_us > 130;
        CHECK(one.outlier == outlier);
        CHECK((one.excess > 0.05) == outlier);
      }
    }
  }
}

TEST_CASE("roles: matmuls of a start only, which an autotuner has tried on each rank, tell nothing") {
  constexpr uint32_t kOther = 9;
  for (const uint32_t matmuls : {40U, 4U}) {
    CAPTURE(matmuls);
    OperationAnalysis analysis;
    for (base::Rank r = 0; r < 2; ++r) {
      RankRecord rank = made_rank(r, 2);
      rank.events.back().ops[kOther] = rank.events.back().ops[kMatmul];
      rank.events.back().ops[kOther].key.m = 4000;
      for (uint32_t i = 0; i < matmuls; ++i) {
        add_call(rank, r == 0 ? kMatmul : kOther, 1000.0 * i, 100, i);
      }
      for (uint32_t i = 0; i < 60; ++i) {
        add_call(rank, kAllReduce, 1000.0 * i + 500, 100, i + 1, wire::Source::nccl_profiler);
      }
      analysis.add(rank);
    }
    CHECK(analysis.roles().may_compare(0, 1) == (matmuls < 6));
  }
}

TEST_CASE("a rank among many is an outlier by the spread of the others") {
  for (const bool noisy : {false, true}) {
    std::vector<RankRecord> ranks;
    for (base::Rank r = 0; r < 16; ++r) {
      RankRecord rank = made_rank(r, 16);
      const double usual = 100 + (noisy ? 3.0 * (r % 8) : 0);
      for (uint32_t i = 0; i < 20; ++i) {
        add_call(rank, kMatmul, 1000.0 * i, r == 5 ? 120 : usual, i);
      }
      ranks.push_back(std::move(rank));
    }
    const model::OperationTables o = analysed(ranks);
    REQUIRE(!o.matmuls.at(0).slowest.empty());
    CHECK(o.matmuls[0].slowest[0].outlier == !noisy);
    CHECK((o.matmuls[0].slowest[0].rank == 5) == !noisy);
  }
}

TEST_CASE("roles: ranks that share most of their calls") {
  RankRoles roles;
  CHECK(roles.may_compare(0, 1));  // nothing is known
  roles.add(0, {{1, 100}, {2, 100}});
  roles.add(1, {{1, 10}, {2, 10}});  // it was started later
  roles.add(2, {{1, 100}, {2, 100}, {3, 20}});
  roles.add(3, {{1, 100}, {4, 300}});
  roles.add(4, {});
  CHECK(roles.roles() == 2);
  CHECK(roles.may_compare(0, 1));
  CHECK(roles.may_compare(1, 2));
  CHECK(!roles.may_compare(0, 3));
  CHECK(roles.may_compare(3, 4));
  CHECK(roles.may_compare(7, 3));
}

TEST_CASE("the lateness matrix has ranks and collectives") {
  const model::OperationTables o = analysed(job({0, 1, 2, 3}, 50, 2));
  REQUIRE(o.lateness.rows.size() == 1);
  CHECK(o.lateness.ranks == std::vector<base::Rank>{0, 1, 2, 3});
  CHECK(o.lateness.rows[0].name.starts_with("AllReduce of "));
  // Rank 2 needs 30 us longer before each.
  for (size_t r = 0; r < 4; ++r) {
    CHECK(o.lateness.rows[0].late_s[r] == doctest::Approx(r == 2 ? 30e-6 : 0).epsilon(0.01));
  }
  std::string text;
  for (const TextTable& table : text_tables(o, 10)) {
    if (table.id == "lateness") {
      REQUIRE(table.rows.size() == 1);
      CHECK(table.columns.size() == 5);
      CHECK(table.columns[3].name == "rank 2");
      CHECK(table.columns[3].weight > table.columns[1].weight);
      text = table.rows[0][3];
    }
  }
  CHECK(text == "0.0300");
}
