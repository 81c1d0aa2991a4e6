// Idle time, queue length and gaps from recorded work.
#include "report/gpu_work/idle_gaps.h"
#include "report/gpu_work/queue_length.h"
#include "report/operations/idle/idle_analysis.h"
#include "report/operations/idle/void_outliers.h"
#include "report/operations/tables/idle_tables.h"
#include "report/operations/tables/text_tables.h"
#include "tests/unit/report/operations/made_events.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kUs = 1'000;

struct Made {
  double launch;  // us
  double begin;
  double end;
};

RecordedWork made(const std::vector<Made>& works) {
  RecordedWork out;
  for (const Made& w : works) {
    const auto name = static_cast<uint32_t>(out.names.size());
    out.names.push_back(std::string(1, static_cast<char>('a' + name)));
    out.works.push_back({static_cast<int64_t>(w.launch * 1e3), static_cast<int64_t>(w.begin * 1e3),
                         static_cast<int64_t>(w.end * 1e3), name});
  }
  return out;
}

// A call that the host made `delay_us` before its begin on the GPU.
void add_work(RankRecord& rank, uint32_t op, double begin_us, double duration_us, uint32_t number,
              uint32_t delay_us) {
  add_call(rank, op, begin_us, duration_us, number).delay_us = delay_us;
}

model::IdleTime idle_of(const RankRecord& rank, bool open_end = false) {
  IdleAnalysis analysis("traces/1", 0);
  RankRecord spans = rank;
  model::EventFile file = std::move(spans.events.front());
  spans.events.clear();
  analysis.add(std::move(file), spans, open_end);
  return analysis.finish();
}

}  // namespace

TEST_CASE("a gap is the host's until the launch of what comes next") {
  struct Case {
    const char* what;
    std::vector<Made> works;
    double idle;         // us
    double kernel_wait;  // us
  };
  for (const Case& c : std::vector<Case>{
           {"back to back", {{0, 0, 100}, {10, 100, 200}}, 0, 0},
           {"launched long before", {{0, 0, 100}, {10, 150, 200}}, 50, 50},
           {"launched in the gap, begins at once", {{0, 0, 100}, {140, 150, 200}}, 50, 0},
           {"launched in the gap, and waits", {{0, 0, 100}, {110, 200, 210}}, 100, 70},
           {"just before the gap", {{0, 0, 100}, {95, 150, 200}}, 50, 35},
           {"a later work was launched early", {{0, 0, 100}, {140, 150, 200}, {50, 160, 170}}, 50, 50},
           {"another stream hides the gap", {{0, 0, 100}, {1, 20, 300}, {250, 260, 400}}, 0, 0},
           {"two gaps", {{0, 0, 10}, {5, 40, 50}, {90, 100, 110}}, 80, 15},
       }) {
    CAPTURE(c.what);
    const IdleGaps gaps = idle_gaps(made(c.works), kNever, 10);
    CHECK(gaps.idle == static_cast<int64_t>(c.idle * 1e3));
    CHECK(gaps.kernel_wait == static_cast<int64_t>(c.kernel_wait * 1e3));
    CHECK(gaps.host_wait() == gaps.idle - gaps.kernel_wait);
    CHECK(gaps.works == c.works.size());
  }
  CHECK(idle_gaps({}, kNever, 10).longest.empty());
}

TEST_CASE("the longest gaps are kept with what was before and after") {
  const IdleGaps gaps = idle_gaps(made({{0, 0, 10}, {0, 30, 40}, {95, 100, 110}, {0, 111, 120}}), kNever, 2);
  REQUIRE(gaps.longest.size() == 2);
  CHECK(gaps.longest[0].begin == 40 * kUs);
  CHECK(gaps.longest[0].length() == 60 * kUs);
  CHECK(gaps.longest[0].after == 1);
  CHECK(gaps.longest[0].before == 2);
  CHECK(gaps.longest[1].length() == 20 * kUs);
  CHECK(gaps.idle == 81 * kUs);
  const IdleGaps cut = idle_gaps(made({{0, 0, 10}, {0, 30, 40}, {95, 100, 110}}), 50 * kUs, 2);
  CHECK(cut.works == 2);
  CHECK(cut.end == 40 * kUs);
}

TEST_CASE("the queue is weighted by time") {
  // One waits from 0 to 100, two from 20 to 40 us.
  const RecordedWork work = made({{0, 0, 10}, {20, 40, 50}, {0, 100, 110}});
  const auto changes = queue_changes(work, 0, 110 * kUs);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].length == 1);
  CHECK(changes[1].at == 20 * kUs);
  CHECK(changes[1].length == 2);
  CHECK(changes[3].length == 0);
  const QueueTimes times = queue_times(changes, 110 * kUs);
  CHECK(times.mean == doctest::Approx(120.0 / 110));
  CHECK(times.median == 1);
  CHECK(times.p99 == 2);
  CHECK(times.most == 2);
  CHECK(queue_times({}, 0).most == 0);
  // What was launched before the first begin, and what begins after the end.
  const auto early = queue_changes(made({{-50, 0, 10}, {-40, 30, 40}, {5, 500, 510}}), 0, 100 * kUs);
  CHECK(early.front().length == 1);
  CHECK(early.back().length == 1);
}

TEST_CASE("a thinned queue keeps its peaks and its end") {
  std::vector<QueueChange> changes;
  for (int64_t i = 0; i < 10'000; ++i) {
    changes.push_back({i * 100, i == 7'777 ? 500 : i % 3});
  }
  changes.push_back({1'000'000, 0});
  const auto few = thinned(changes, 100);
  CHECK(few.size() <= 102);
  CHECK(std::any_of(few.begin(), few.end(), [](const QueueChange& c) { return c.length == 500; }));
  CHECK(few.back().length == 0);
  CHECK(few.back().at == 1'000'000);
  CHECK(std::is_sorted(few.begin(), few.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
  CHECK(thinned(changes, 20'000).size() == changes.size());
}

TEST_CASE("idle time of a rank in a trace, with the spans of its host") {
  RankRecord rank = made_rank(3, 4);
  rank.offset_ns = 1'000'000'000;
  model::SpanFile& spans = rank.spans.emplace_back();
  spans.names = {"", "DataLoader.__next__", "train.py:7 (main)"};
  spans.spans = {
      {.begin_ns = 0, .duration_ns = 400 * kUs, .stage = model::Stage::forward},
      {.begin_ns = 110 * kUs, .duration_ns = 80 * kUs, .stage = model::Stage::data, .name = 1, .place = 2}};
  add_work(rank, kMatmul, 0, 100, 0, 5);
  add_work(rank, kCopy, 200, 50, 0, 10);      // host wait: 100 us
  add_work(rank, kMatmul, 300, 100, 1, 250);  // kernel wait: 50 us
  const model::IdleTime idle = idle_of(rank);
  REQUIRE(idle.ranks.size() == 1);
  const model::RankIdle& row = idle.ranks[0];
  CHECK(row.rank == 3);
  CHECK(row.works == 3);
  CHECK(row.window_s == doctest::Approx(400e-6));
  CHECK(row.idle_s == doctest::Approx(150e-6));
  // The matmul at 300 us was launched at 50 us: from then on, launched work was there.
  CHECK(row.kernel_wait_s == doctest::Approx(150e-6));
  CHECK(row.host_wait_s == doctest::Approx(0));
  CHECK(row.timed_share == doctest::Approx(1));
  CHECK(row.untraced_share == doctest::Approx(0));
  CHECK(row.queue.most == 2);
  REQUIRE(idle.gaps.size() == 2);
  CHECK(idle.gaps[0].seconds == doctest::Approx(100e-6));
  CHECK(idle.gaps[0].wall_ns == 1'000'000'000 + 100 * kUs);
  CHECK(idle.gaps[0].after == "matmul 1000x1000x1000 bf16");
  CHECK(idle.gaps[0].before == "cudaMemcpyAsync H2D");
  CHECK(idle.gaps[0].python == "DataLoader.__next__, train.py:7 (main)");
  CHECK(idle.gaps[1].python == "forward");
  CHECK(idle.source == "timed calls");
}

TEST_CASE("work without times of the GPU gives no numbers") {
  RankRecord rank = made_rank(0, 1);
  for (uint32_t i = 0; i < 10; ++i) {
    add_call(rank, kMatmul, i * 100, 10, i).flags = wire::kEventHostBegin;
  }
  model::IdleTime idle = idle_of(rank);
  CHECK(idle.ranks.empty());
  CHECK(idle.notes == std::vector<std::string>{"rank 0: the times of some calls are not those of the GPU"});
  RankRecord lossy = made_rank(1, 1);
  for (uint32_t i = 0; i < 10; ++i) {
    add_work(lossy, kMatmul, i * 100, 10, i, 1);
  }
  lossy.events.front().lost = 5;
  CHECK(idle_of(lossy).notes == std::vector<std::string>{"rank 1: 5 calls found no room"});
  CHECK(idle_of(made_rank(2, 1)).notes ==
        std::vector<std::string>{"rank 2: no work of the GPU was recorded"});
}

TEST_CASE("the end of a record that ends with a number of calls is left out") {
  RankRecord rank = made_rank(0, 1);
  for (uint32_t i = 0; i < 100; ++i) {
    add_work(rank, kMatmul, i * 1'000, 1'000, i, 1);
  }
  CHECK(idle_of(rank).ranks.at(0).window_s == doctest::Approx(0.1));
  CHECK(idle_of(rank, true).ranks.at(0).window_s == doctest::Approx(0.095));
}

TEST_CASE("CUPTI's records: the launch is the call with the same number") {
  RankRecord rank = made_rank(0, 1);
  model::EventFile& file = rank.events.front();
  file.ops[9].key.op_class = static_cast<uint8_t>(wire::OpClass::host);
  file.ops[9].function = "cudaLaunchKernel";
  const auto put = [&](uint32_t op, double begin, double duration, uint32_t number) {
    add_call(rank, op, begin, duration, number, wire::Source::cupti);
  };
  put(9, 0, 5, 1);
  put(kKernel, 10, 40, 1);
  put(9, 20, 100, 2);
  put(kKernel, 150, 40, 2);
  const model::IdleTime idle = idle_of(rank);
  REQUIRE(idle.ranks.size() == 1);
  CHECK(idle.source == "CUPTI");
  CHECK(idle.ranks[0].untraced_share == 0);
  CHECK(idle.ranks[0].idle_s == doctest::Approx(100e-6));
  CHECK(idle.ranks[0].kernel_wait_s == doctest::Approx(100e-6));
  REQUIRE(idle.gaps.size() == 1);
  CHECK(idle.gaps[0].call == "cudaLaunchKernel");
}

TEST_CASE("tables of idle time: of the newest record, or why there is none") {
  model::OperationTables o;
  CHECK(idle_tables(o, 5).empty());
  CHECK(missing_idle_text(o).empty());
  o.ranks.push_back({.rank = 0, .window_s = 1});
  CHECK(missing_idle_text(o).find("needs a trace (xpurun ctl trace") != std::string::npos);
  CHECK(missing_text(o).find("needs a trace") != std::string::npos);
  o.idle.push_back({.dir = "traces/1", .source = "timed calls"});
  o.idle.back().notes.push_back("rank 0: no work of the GPU was recorded");
  CHECK(missing_idle_text(o).find("traces/1: rank 0: no work") != std::string::npos);
  for (int r = 0; r < 3; ++r) {
    o.idle.back().ranks.push_back({.rank = r,
                                   .window_s = 2,
                                   .works = 1000,
                                   .timed_share = 1,
                                   .untraced_share = 0.25,
                                   .idle_s = 0.1 * r,
                                   .host_wait_s = 0.1 * r,
                                   .queue = {.mean = 12.34, .median = 12, .p99 = 40, .most = 55}});
  }
  o.idle.back().gaps.push_back(
      {.rank = 1, .wall_ns = 5'000'000, .seconds = 0.002, .after = "a", .before = "b"});
  o.idle.push_back({.dir = "traces/2"});  // without numbers
  CHECK(missing_idle_text(o).empty());
  const auto tables = idle_tables(o, 2);
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].rows.size() == 2);
  CHECK(tables[0].all_rows == 3);
  CHECK(tables[0].rows[0] == std::vector<std::string>{"2", "2.00", "100.0", "25.0", "10.0", "", "", "10.0",
                                                      "0.0", "12.3", "12", "40", "55", ""});
  CHECK(tables[0].about.find("up to 25") != std::string::npos);
  CHECK(tables[1].rows[0] == std::vector<std::string>{"1", "5.0", "2.00", "100.0", "a", "b", "", ""});
}

TEST_CASE("idle time between steps is told from that inside of steps") {
  // Steps end at 100 and 200 us on the host. The GPU is idle from 40 to 60 in a step, and from 110 to 140
  // between the work of two steps; from 150 to 160 the host has launched nothing of the next step.
  const RecordedWork work = made({{0, 0, 40}, {50, 60, 110}, {120, 140, 150}, {155, 160, 170}});
  const std::vector<int64_t> steps{100 * kUs, 200 * kUs};
  const IdleGaps gaps = idle_gaps(work, kNever, 10, steps);
  CHECK(gaps.idle == 60 * kUs);
  CHECK(gaps.between_steps == 30 * kUs);
  CHECK(idle_gaps(work, kNever, 10).between_steps == 0);
  // The rank's spans tell the steps.
  RankRecord rank = made_rank(0, 1);
  rank.offset_ns = 5'000;
  rank.spans.resize(1);
  rank.spans[0].names = {"", "SGD.step"};
  for (uint32_t i = 0; i < 20; ++i) {
    add_work(rank, kMatmul, 1000.0 * i + 20, 500, i, 10);
    add_work(rank, kKernel, 1000.0 * i + 600, 300, i, 10);
    rank.spans[0].spans.push_back({.begin_ns = static_cast<int64_t>(1000 * i + 500) * kUs,
                                   .duration_ns = 300 * kUs,
                                   .stage = model::Stage::backward,
                                   .thread = 7});
    rank.spans[0].spans.push_back({.begin_ns = static_cast<int64_t>(1000 * i + 950) * kUs,
                                   .duration_ns = 10 * kUs,
                                   .stage = model::Stage::optimizer,
                                   .name = 1,
                                   .thread = 7});
  }
  const model::IdleTime idle = idle_of(rank);
  REQUIRE(idle.ranks.size() == 1);
  const model::RankIdle& r = idle.ranks[0];
  CHECK(r.idle_s == doctest::Approx(20 * 80e-6 + 19 * 120e-6).epsilon(0.01));
  CHECK(r.between_steps_s == doctest::Approx(19 * 120e-6).epsilon(0.01));
  rank.spans.clear();
  CHECK(idle_of(rank).ranks[0].between_steps_s < 0);
}

TEST_CASE("ranks whose GPU has nothing to do stand out from the others") {
  struct Case {
    const char* what;
    std::vector<double> idle;  // shares of the time, by rank
    std::vector<base::Rank> outliers;
  };
  for (const Case& c : std::vector<Case>{
           {"alike", {0.10, 0.11, 0.12, 0.10}, {}},
           {"one", {0.10, 0.11, 0.45, 0.10}, {2}},
           {"less than 5 % of the time", {0.10, 0.10, 0.145, 0.10}, {}},
           {"inside of the spread of the others", {0.10, 0.30, 0.50, 0.20, 0.62}, {}},
           {"two of five", {0.10, 0.40, 0.11, 0.42, 0.10}, {1, 3}},
           {"half of the ranks", {0.10, 0.40, 0.10, 0.40}, {}},
           {"one of two", {0.10, 0.40}, {1}},
           {"alone", {0.90}, {}},
           {"less idle than the others", {0.40, 0.41, 0.05, 0.40}, {}},
       }) {
    CAPTURE(c.what);
    model::IdleTime idle{.dir = "traces/1"};
    for (size_t r = 0; r < c.idle.size(); ++r) {
      idle.ranks.push_back(
          {.rank = static_cast<base::Rank>(r), .window_s = 2, .idle_s = 2 * c.idle[r], .outlier = true});
    }
    mark_void_outliers(idle, {});
    std::vector<base::Rank> found;
    for (const model::RankIdle& one : idle.ranks) {
      if (one.outlier) {
        found.push_back(one.rank);
      }
    }
    CHECK(found == c.outliers);
    CHECK((idle.ranks[0].others_void_share < 0) == (c.idle.size() == 1));
  }
}

TEST_CASE("void shares are compared between ranks that do the same work") {
  model::IdleTime idle{.dir = "traces/1"};
  RankRoles roles;
  for (base::Rank r = 0; r < 6; ++r) {
    const bool second_stage = r >= 3;
    idle.ranks.push_back({.rank = r, .window_s = 1, .idle_s = second_stage ? 0.5 : 0.1});
    roles.add(r, {{second_stage ? uint64_t{7} : uint64_t{8}, 100.0}});
  }
  mark_void_outliers(idle, roles);
  for (const model::RankIdle& one : idle.ranks) {
    CHECK_FALSE(one.outlier);
    CHECK(one.others_void_share == doctest::Approx(one.void_share()));
  }
}

TEST_CASE("the table of idle time has the others' share beside a rank that stands out") {
  model::OperationTables o;
  o.idle.push_back({.dir = "traces/1", .source = "CUPTI"});
  for (base::Rank r = 0; r < 4; ++r) {
    o.idle[0].ranks.push_back({.rank = r, .window_s = 1, .timed_share = 1, .idle_s = r == 2 ? 0.5 : 0.1});
  }
  mark_void_outliers(o.idle[0], {});
  const auto tables = idle_tables(o, 10);
  REQUIRE(!tables.empty());
  CHECK(tables[0].columns.back().name == "Others idle %");
  CHECK(tables[0].rows[2].back() == "10.0");
  CHECK(tables[0].rows[1].back().empty());
}
