// The pictures of the section "Speed" are bounded and well-formed, whatever the numbers.
#include "report/speed/pictures.h"

#include "report/render/speed/speed_svg.h"
#include "report/speed/wording.h"

#include <doctest/doctest.h>

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
  const std::string svg = heat_picture(heat);
  CHECK(svg.size() < 500'000);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("nan") == std::string::npos);
  heat.rows.resize(1);
  CHECK(heat_picture(heat).empty());
  CHECK(heat_picture({}).empty());
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
