// The heat map of ranks over steps, as the page and report.json have it.
#include "common/model/timing/speed_report.h"
#include "report/speed/analysis.h"
#include "report/speed/pictures.h"
#include "tests/unit/report/speed/made_job.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace xpurun;
using namespace xpurun::report;
using tests::MadeJob;
using tests::StepParts;

namespace {

double cell(const model::HeatMap& heat, size_t row, size_t column) {
  return static_cast<double>(heat.own_s.at(row * heat.columns + column));
}

}  // namespace

TEST_CASE("each cell of the heat map is the own time of a rank in a step") {
  MadeJob job{.ranks = 3, .steps = 61, .visible_calls = true, .noise = 0};
  job.change = [](int rank, int step, StepParts& p) { p.data += rank == 1 && step > 40 ? 25 : 0; };
  const auto report = analyse_speed(tests::make_ranks(job));
  const model::HeatMap& heat = report.heat;
  REQUIRE(heat.rows.size() == 3);
  REQUIRE(heat.columns == 60);
  CHECK(heat.steps == 60);
  CHECK(heat.first_step == 0);
  REQUIRE(heat.own_s.size() == 3 * 60);
  for (size_t r = 0; r < 3; ++r) {
    CHECK(heat.rows[r] == model::RankSet{static_cast<base::Rank>(r)});
    for (size_t step = 0; step < 60; ++step) {
      // Step 0 of the job has no begin. 97 ms of work, and the transfer that nobody waits for.
      const double own = r == 1 && step >= 40 ? 0.127 : 0.102;
      CHECK_MESSAGE(cell(heat, r, step) == doctest::Approx(own).epsilon(0.01), r << " " << step);
    }
  }
}

TEST_CASE("a rank without steps has cells without data") {
  auto ranks = tests::make_ranks({.ranks = 2, .steps = 60, .visible_calls = true});
  ranks.push_back({.rank = 2, .host = "a"});
  const model::HeatMap heat = analyse_speed(ranks).heat;
  REQUIRE(heat.rows.size() == 3);
  for (size_t column = 0; column < heat.columns; ++column) {
    CHECK(cell(heat, 0, column) > 0);
    CHECK(cell(heat, 2, column) == -1);
  }
}

TEST_CASE("many ranks and steps share cells: each rank in one row, the means kept") {
  MadeJob job{.ranks = 300, .steps = 401, .noise = 0};
  job.change = [](int rank, int, StepParts& p) { p.data = 5.0 + 0.1 * rank; };
  const auto report = analyse_speed(tests::make_ranks(job));
  const model::HeatMap& heat = report.heat;
  CHECK(heat.rows.size() == kMostHeatRows);
  CHECK(heat.columns == kMostHeatColumns);
  CHECK(heat.steps == 400);
  REQUIRE(heat.own_s.size() == kMostHeatRows * kMostHeatColumns);
  std::set<base::Rank> seen;
  size_t members = 0;
  for (size_t row = 0; row < heat.rows.size(); ++row) {
    double mean = 0;
    for (const base::Rank rank : heat.rows[row].ranks()) {
      seen.insert(rank);
      ++members;
      mean += 0.1 * rank / static_cast<double>(heat.rows[row].size());
    }
    CHECK(cell(heat, row, 7) - cell(heat, 0, 7) ==
          doctest::Approx((mean - 0.1) * 1e-3).epsilon(0.02).scale(1e-3));
  }
  CHECK(seen.size() == 300);
  CHECK(members == 300);
}
