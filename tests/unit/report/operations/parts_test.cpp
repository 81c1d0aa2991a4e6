#include "report/operations/breakdown.h"
#include "report/operations/call_numbers.h"
#include "report/operations/meetings.h"
#include "report/operations/tables/text_tables.h"
#include "report/speed/primitives/duration_sketch.h"
#include "report/speed/primitives/intervals.h"
#include "report/speed/primitives/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("a sketch of durations knows their quantiles to 1 percent") {
  CHECK(DurationSketch().quantile_s(0.5) == 0);
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> durations(9 + 0.2 * seed, 1.0);
    DurationSketch sketch;
    DurationSketch later;
    std::vector<double> all;
    double sum = 0;
    for (int i = 0; i < 5000; ++i) {
      all.push_back(durations(random));
      sum += all.back();
      (i < 2000 ? sketch : later).add(all.back());
    }
    sketch.add(later);
    for (const double q : {0.0, 0.1, 0.5, 0.9}) {
      CHECK(sketch.quantile_s(q) == doctest::Approx(quantile(all, q) * 1e-9).epsilon(0.012));
    }
    CHECK(sketch.total_s() == doctest::Approx(sum * 1e-9));
    CHECK(sketch.count() == 5000);
  }
  DurationSketch equal;
  for (int i = 0; i < 3; ++i) {
    equal.add(600'000);
  }
  CHECK(equal.quantile_s(0.5) == doctest::Approx(600e-6).epsilon(1e-12));
  DurationSketch extremes;
  extremes.add(0);
  extremes.add(1e18);
  CHECK(extremes.quantile_s(0) < 1.1e-9);
  CHECK(extremes.quantile_s(1) > 4000);
}

TEST_CASE("intervals are sets of moments") {
  CHECK(united({}).empty());
  CHECK(united({{5, 9}, {1, 3}, {3, 4}, {6, 7}}) == std::vector<Interval>{{1, 4}, {5, 9}});
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Interval> sets[2];
    bool in[2][100]{};
    for (int s = 0; s < 2; ++s) {
      for (int i = 0; i < 8; ++i) {
        const int64_t begin = random() % 80;
        const int64_t end = begin + random() % 20;
        sets[s].push_back({begin, end});
        std::fill(in[s] + begin, in[s] + end, true);
      }
    }
    int64_t lengths[2]{};
    int64_t both = 0;
    for (int i = 0; i < 100; ++i) {
      lengths[0] += in[0][i] ? 1 : 0;
      lengths[1] += in[1][i] ? 1 : 0;
      both += in[0][i] && in[1][i] ? 1 : 0;
    }
    const auto a = united(sets[0]);
    const auto b = united(sets[1]);
    CHECK(length_of(a) == lengths[0]);
    CHECK(overlap_of(a, b) == both);
    CHECK(overlap_of(b, a) == both);
    CHECK(length_of(common_of(a, b)) == both);
    CHECK(length_of(difference_of(a, b)) == lengths[0] - both);
    CHECK(overlap_of(difference_of(a, b), b) == 0);
  }
}

TEST_CASE("numbers of calls tell how many were not timed") {
  CallNumbers numbers;
  CHECK(numbers.scale({1, 1}) < 0);
  numbers.add({1, 1}, 0xfffffff0);
  CHECK(numbers.scale({1, 1}) < 0);  // one call is not enough
  numbers.add({1, 1}, 0xfffffffa);
  numbers.add({1, 1}, 4);  // the number wrapped around
  CHECK(numbers.scale({1, 1}) == doctest::Approx(10));
  numbers.add({2, 1}, 9);
  numbers.add({2, 1}, 8);
  numbers.add({2, 1}, 7);
  CHECK(numbers.scale({2, 1}) == doctest::Approx(1));
  numbers.add({3, 1}, 0);
  numbers.add({3, 1}, 0);  // calls without numbers
  CHECK(numbers.scale({3, 1}) < 0);
}

namespace {

TimedWork work_of(double calls) {
  TimedWork work;
  work.numbers_known = true;
  work.parts[0] = {.intervals = {{0, 40}, {60, 100}}, .timed = 2, .calls = calls, .estimated_s = 80e-9};
  work.parts[1] = {.intervals = {{30, 70}}, .timed = 1, .calls = 1, .estimated_s = 40e-9};
  work.parts[2] = {.intervals = {{110, 120}}, .timed = 1, .calls = 1, .estimated_s = 10e-9};
  return work;
}

}  // namespace

TEST_CASE("the time of a rank is divided as far as the timed calls allow") {
  CHECK(breakdown_of({}).window_s == 0);

  const model::RankBreakdown all = breakdown_of(work_of(2));
  CHECK(all.exact);
  CHECK(all.timed_share == 1);
  CHECK(all.window_s == doctest::Approx(120e-9));
  CHECK(all.compute_s == doctest::Approx(80e-9));
  CHECK(all.communication_s == doctest::Approx(40e-9));
  CHECK(all.exposed_share == doctest::Approx(0.5));  // 40 to 60 of 30 to 70
  CHECK(all.memory_s == doctest::Approx(10e-9));
  CHECK(all.idle_s == doctest::Approx(10e-9));  // 100 to 110
  CHECK(all.untraced_share == 0);

  TimedWork sampled = work_of(20);
  sampled.parts[0].estimated_s = 800e-9;
  sampled.untraced_s = 425e-9;
  const model::RankBreakdown some = breakdown_of(std::move(sampled));
  CHECK_FALSE(some.exact);
  CHECK(some.timed_share == doctest::Approx(4.0 / 22));
  CHECK(some.compute_s == doctest::Approx(800e-9));
  CHECK(some.untraced_share == doctest::Approx(0.5));
  CHECK(some.exposed_share == doctest::Approx(0.5));
  CHECK(some.idle_s < 0);

  TimedWork moved = work_of(2);
  moved.in_place = false;
  const model::RankBreakdown unknown = breakdown_of(std::move(moved));
  CHECK_FALSE(unknown.exact);
  CHECK(unknown.exposed_share < 0);
  CHECK(unknown.idle_s < 0);

  TimedWork unnumbered = work_of(2);
  unnumbered.numbers_known = false;
  CHECK(breakdown_of(std::move(unnumbered)).timed_share < 0);
}

TEST_CASE("the rank that arrives last is named, with the time that the others waited") {
  const std::vector<RankPlace> ranks{{4, "a"}, {5, "a"}, {6, "a"}};
  Meetings meetings;
  for (uint64_t i = 0; i < 10; ++i) {
    const auto at = static_cast<int64_t>(i) * 1000;
    meetings.add({i * 7919, at, at + 100, 3, 0});
    meetings.add({i * 7919, at + (i < 8 ? 60 : 0), at + 100, 3, 1});
    meetings.add({i * 7919, at + (i < 8 ? 10 : 20), at + 100, 3, 2});
  }
  meetings.add({5, 0, 10, 1, 0});  // alone
  meetings.add({6, 0, 10, 2, 0});  // twice: the numbers started again
  meetings.add({6, 5, 10, 2, 0});
  const auto rows = meetings.lateness(ranks);
  REQUIRE(rows.size() == 1);
  const model::Lateness& row = rows.at(3);
  CHECK(row.meetings == 10);
  CHECK(row.wait_s == doctest::Approx((8 * (60 + 50) + 2 * (20 + 20)) * 1e-9));
  CHECK(row.transfer_s == doctest::Approx(40e-9).epsilon(0.02));
  REQUIRE(row.ranks.size() == 2);
  CHECK(row.ranks[0].rank == 5);
  CHECK(row.ranks[0].times == 8);
  CHECK(row.ranks[0].cost_s == doctest::Approx(8 * 110e-9));
  CHECK(row.ranks[1].rank == 6);
}

TEST_CASE("clocks of hosts do not make a rank late") {
  const std::vector<RankPlace> ranks{{0, "a"}, {1, "b"}};
  Meetings meetings;
  for (uint64_t i = 0; i < 50; ++i) {
    const auto at = static_cast<int64_t>(i) * 1'000'000;
    meetings.add({i * 7919, at, at + 1000, 0, 0, 1});
    meetings.add({i * 7919, at + 500'000, at + 501'000, 0, 1, 1});  // the clock is 500 us ahead
  }
  CHECK(meetings.lateness(ranks).at(0).wait_s == 0);
}

TEST_CASE("of too many collectives the same are kept on every rank") {
  Meetings meetings(1000);
  std::mt19937_64 random(3);
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 20000; ++i) {
    numbers.push_back(random());
  }
  for (uint32_t rank = 0; rank < 4; ++rank) {
    for (const uint64_t number : numbers) {
      meetings.add({number, rank == 3 ? 50 : 0, 100, 0, rank});
    }
  }
  const auto rows = meetings.lateness({{0, "a"}, {1, "a"}, {2, "a"}, {3, "a"}});
  const model::Lateness& row = rows.at(0);
  CHECK(row.meetings > 50);
  CHECK(row.meetings <= 250);
  CHECK(row.ranks.size() == 1);
  CHECK(row.ranks[0].rank == 3);
}

TEST_CASE("of too many ranks, those that differ from the others are shown") {
  model::OperationTables o;
  for (base::Rank r = 0; r < 100; ++r) {
    o.ranks.push_back({.rank = r, .window_s = 1, .communication_s = r == 77 ? 0.1 : 0.3});
  }
  CHECK(text_tables(o, 3)[0].rows[0][0] == "77");
  CHECK(text_tables(o, 100)[0].rows[0][0] == "0");
  CHECK(text_tables(o, 3)[0].all_rows == 100);
  CHECK(missing_text(o).find("were not measured: needs a trace") != std::string::npos);
  o.ranks.clear();
  CHECK(missing_text(o).empty());
  o.left_out = 3;
  CHECK(missing_text(o) == "3 rows with less time are left out.");
  o.lost = 1200;
  CHECK(missing_text(o).find("1,200 events and spans") != std::string::npos);
}

TEST_CASE("numbers have three digits, and no sign of what is unknown") {
  CHECK(short_number(-1).empty());
  CHECK(short_number(0) == "0");
  CHECK(short_number(1234.5) == "1234");
  CHECK(short_number(123.4) == "123");
  CHECK(short_number(12.34) == "12.3");
  CHECK(short_number(1.234) == "1.23");
  CHECK(short_number(0.1234) == "0.123");
  CHECK(short_number(0.00421) == "0.0042");
  CHECK(text_tables({}, 10).empty());
}
