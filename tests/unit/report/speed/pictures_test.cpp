// The pictures of the section "Speed" are bounded and well-formed, whatever the numbers.
#include "report/speed/pictures.h"

#include "report/render/speed/bandwidth_svg.h"
#include "report/render/speed/speed_svg.h"
#include "report/render/speed/spread_svg.h"
#include "report/speed/duration_rows.h"
#include "report/speed/wording.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("many steps become few bins that cover all of them") {
  for (const size_t count : {size_t{0}, size_t{1}, kMostBins - 1, kMostBins + 1, size_t{12'345}}) {
    std::vector<double> seconds(count, 0.1);
    if (count > 10) {
      seconds[count / 2] = 5;
    }
    const auto bins = step_bins(seconds);
    CHECK(bins.size() == std::min(count, kMostBins));
    int64_t next = 0;
    double most = 0;
    for (const model::StepBin& bin : bins) {
      CHECK(bin.first == next);
      next += bin.count;
      most = std::max(most, bin.most_s);
    }
    CHECK(next == static_cast<int64_t>(count));
    CHECK(most == (count > 10 ? 5 : count == 0 ? 0 : 0.1));
  }
}

TEST_CASE("the worst heat map stays below half a megabyte") {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> own(0.1F, 0.2F);
  model::HeatMap heat{.columns = kMostHeatColumns, .steps = 1'000'000};
  for (size_t r = 0; r < kMostHeatRows; ++r) {
    heat.rows.push_back(
        model::RankSet::range(static_cast<base::Rank>(8 * r), static_cast<base::Rank>(8 * r + 7)));
  }
  for (size_t i = 0; i < kMostHeatRows * kMostHeatColumns; ++i) {
    heat.own_s.push_back(i % 97 == 0 ? -1 : own(random));
  }
  const std::string svg = heat_picture(heat, 0.3);
  CHECK(svg.size() < 500'000);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("nan") == std::string::npos);
  heat.rows.resize(1);
  CHECK(heat_picture(heat, 0.3).empty());
  CHECK(heat_picture({}, 0.3).empty());
}

TEST_CASE("levels of the heat map") {
  CHECK(heat_level(-1) == 0);
  CHECK(heat_level(0.02) == 0);
  CHECK(heat_level(0.021) == 1);
  CHECK(heat_level(9) == kHeatLevels - 1);
  CHECK(heat_level_text(0) == "up to 2 % more");
  CHECK(heat_level_text(kHeatLevels - 1) == "over 30 % more");
}

TEST_CASE("a plot of steps without a duration is no plot") {
  CHECK(step_plot({}).empty());
  model::SpeedReport zero{.steps = 5, .series = {{.first = 0, .count = 5}}};
  CHECK(step_plot(zero).empty());
}

TEST_CASE("a plot of steps has room for a job that became five times slower, and not for one long step") {
  model::SpeedReport speed{.steps = 151, .step_s = 0.01};
  for (int i = 0; i < 151; ++i) {
    const double step_s = i == 0 ? 2 : i < 90 ? 0.01 : 0.05;
    speed.series.push_back({.first = i, .count = 1, .median_s = step_s, .most_s = step_s});
  }
  const std::string svg = step_plot(speed, {});
  const std::string key = "data-most=\"";
  const double most = std::stod(svg.substr(svg.find(key) + key.size()));
  CHECK(most > 0.05);
  CHECK(most < 0.1);
}

TEST_CASE("what was told while the job ran is marked at its step, and nothing outside of the plot") {
  const model::SpeedReport speed{
      .steps = 100, .step_s = 0.1, .series = {{.first = 0, .count = 100, .median_s = 0.1, .most_s = 0.2}}};
  const std::string svg =
      step_plot(speed, {{.step = 50, .share = 0.23, .cleared_step = 75}, {.step = 100}, {.step = -1}});
  // 70 + step / 100 * 922
  CHECK(svg.find(R"(<path class="reported slower" d="M531.0 16l-6 -10h12z">)") != std::string::npos);
  CHECK(svg.find("reported while the job ran: 23 % slower since step 50") != std::string::npos);
  CHECK(svg.find(R"(<path class="reported faster" d="M761.5 6l-6 10h12z">)") != std::string::npos);
  CHECK(svg.find("as fast as before since step 75") != std::string::npos);
  CHECK(svg.find("class=\"told") == svg.find("class=\"told slower"));
  CHECK(svg.rfind("class=\"told") == svg.rfind("class=\"told faster"));
}

TEST_CASE("durations of a rank become quantiles; of many ranks the unusual ones are kept") {
  std::vector<double> seconds;
  for (int i = 100; i >= 0; --i) {
    seconds.push_back(i);
  }
  const model::RankDurations d = rank_durations(7, seconds);
  CHECK(d.rank == 7);
  CHECK(d.count == 101);
  CHECK(d.p5_s == doctest::Approx(5));
  CHECK(d.p25_s == doctest::Approx(25));
  CHECK(d.median_s == doctest::Approx(50));
  CHECK(d.p75_s == doctest::Approx(75));
  CHECK(d.p95_s == doctest::Approx(95));
  CHECK(d.p99_s == doctest::Approx(99));
  std::vector<model::RankDurations> ranks;
  for (base::Rank r = 0; r < 1000; ++r) {
    ranks.push_back({.rank = r, .median_s = r == 777 ? 2.0 : 1.0});
  }
  keep_unusual(ranks);
  CHECK(ranks.size() == kMostDurationRanks);
  CHECK(std::any_of(ranks.begin(), ranks.end(), [](const auto& one) { return one.rank == 777; }));
  CHECK(std::is_sorted(ranks.begin(), ranks.end(),
                       [](const auto& a, const auto& b) { return a.rank < b.rank; }));
}

TEST_CASE("the plot of spreads: a box a rank, names escaped, nothing for nothing") {
  CHECK(spread_plot({}).empty());
  CHECK(spread_plot({{.name = "step"}}).empty());
  model::DurationRow row{.name = "<AllReduce>", .bytes = 1e6, .bus_factor = 1.5};
  for (int r = 0; r < 3; ++r) {
    row.ranks.push_back({.rank = r,
                         .count = 50,
                         .p5_s = 0.001,
                         .p25_s = 0.002,
                         .median_s = 0.003,
                         .p75_s = 0.004,
                         .p95_s = 0.005,
                         .p99_s = 0.006});
  }
  const model::DurationRow still{.name = "zero", .ranks = {{.rank = 0, .count = 1}}};
  const std::string svg = spread_plot({still, row});
  CHECK(svg.starts_with("<svg class=\"spread\""));
  CHECK(svg.find("<desc>") != std::string::npos);
  CHECK(svg.find("&lt;AllReduce&gt;") != std::string::npos);
  CHECK(svg.find("rank 2: median 3.0 ms, middle half 2.0 ms to 4.0 ms") != std::string::npos);
  CHECK(svg.find("zero") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  // Each rank is a point of the plot of bandwidths: 1 MB * 1.5 in 3 ms.
  const std::vector<model::CollectiveRow> rows{{.mean_bytes = 1e6, .transfer_bus_gb_s = 1},
                                               {.mean_bytes = 2e6, .transfer_bus_gb_s = 2}};
  const std::string points = bandwidth_plot(rows, {row});
  CHECK(points.find("rank 1: &lt;AllReduce&gt;: 0.5 GB/s by its own time") != std::string::npos);
  CHECK(bandwidth_plot({}, {row}).empty());
}

TEST_CASE("numbers for people") {
  CHECK(short_seconds(0) == "0");
  CHECK(short_seconds(-1e-9) == "0");
  CHECK(short_seconds(0.005) == "5.0 ms");
  CHECK(short_seconds(0.00999) == "10 ms");
  CHECK(short_seconds(0.2101) == "210 ms");
  CHECK(short_seconds(0.9999) == "1.00 s");
  CHECK(short_seconds(12.34) == "12.3 s");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(4120) == "4,120");
  CHECK(grouped(-4120) == "-4,120");
  CHECK(grouped(-120) == "-120");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(percent(0.184) == "18 %");
}
