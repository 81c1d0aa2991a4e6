#include "report/render/speed/speed_svg.h"

#include "common/base/tr.h"
#include "report/flamegraph/escape.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr double kWidth = 1000;
constexpr double kHeight = 220;
constexpr double kLeft = 70;
constexpr double kTop = 16;
constexpr double kBottom = 30;
constexpr double kHeatHeight = 360;
constexpr double kLowestRow = 3;
constexpr double kHighestRow = 24;
// Upper bounds of the levels but the last one.
constexpr std::array<double, kHeatLevels - 1> kBounds = {0.02, 0.05, 0.10, 0.15, 0.20, 0.30};
constexpr size_t kMostReported = 100;
// Of a change.
constexpr double kLabelWidth = 150;
constexpr double kLabelHeight = 15;
constexpr int kLabelRows = 4;
// Single longer steps are cut: times the median, and times what a twentieth of the steps exceeds.
constexpr double kHighestOfUsual = 3;
constexpr double kHighestOfMany = 1.25;
constexpr double kMany = 0.95;

class Plot {
 public:
  explicit Plot(const model::SpeedReport& speed)
      : steps_(static_cast<double>(std::max<int64_t>(speed.steps, 1))) {
    std::vector<double> medians;
    for (const model::StepBin& bin : speed.series) {
      medians.push_back(bin.median_s);
      top_s_ = std::max(top_s_, bin.most_s);
    }
    const double many = quantile(medians, kMany);
    top_s_ =
        1.1 * std::min(top_s_, std::max(kHighestOfMany * many, kHighestOfUsual * median(std::move(medians))));
  }
  double x(double step) const { return kLeft + step / steps_ * (kWidth - kLeft - 8); }
  double y(double seconds) const {
    return kTop + (1 - std::min(seconds, top_s_) / top_s_) * (kHeight - kTop - kBottom);
  }
  double top() const { return top_s_; }

 private:
  double steps_;
  double top_s_ = 0;
};

std::string line(const char* look, const Plot& plot, const std::vector<model::StepBin>& bins,
                 double model::StepBin::*value) {
  std::string points;
  for (const model::StepBin& bin : bins) {
    const double middle = static_cast<double>(bin.first) + static_cast<double>(bin.count) / 2;
    points += fmt::format("{:.1f},{:.1f} ", plot.x(middle), plot.y(bin.*value));
  }
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", look, points);
}

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_attribute(words));
}

// A triangle on the upper edge of the plot, whose point is at the step.
std::string triangle(const Plot& plot, int64_t step, bool slower, const std::string& words) {
  const double x = plot.x(static_cast<double>(step));
  return fmt::format(R"(<path class="reported {}" d="M{:.1f} {}l-6 {}h12z"><title>{}</title></path>)"
                     "\n",
                     slower ? "slower" : "faster", x, slower ? kTop : kTop - 10, slower ? -10 : 10,
                     escape_attribute(words));
}

std::string reported_marks(const Plot& plot, int64_t steps, const std::vector<model::Slowdown>& reported) {
  std::string out;
  for (size_t i = 0; i < std::min(reported.size(), kMostReported); ++i) {
    const model::Slowdown& one = reported[i];
    if (one.step >= 0 && one.step < steps) {
      out += triangle(plot, one.step, true,
                      base::tr("reported while the job ran: {} slower since step {}", percent(one.share),
                               grouped(one.step)));
    }
    if (one.cleared_step >= 0 && one.cleared_step < steps) {
      out += triangle(plot, one.cleared_step, false,
                      base::tr("as fast as before since step {}", grouped(one.cleared_step)));
    }
  }
  return out;
}

}  // namespace

double round_number(double least) {
  constexpr double kSmallest = 1e-300;  // a damaged file may hold any number
  if (!(least > kSmallest) || !std::isfinite(least)) {
    return 1;
  }
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string step_plot(const model::SpeedReport& speed, const std::vector<model::Slowdown>& reported) {
  const Plot plot(speed);
  if (speed.series.empty() || !(plot.top() > 0)) {
    return "";
  }
  std::string out = fmt::format(
      "<svg class=\"steps\" viewBox=\"0 0 {} {}\" data-left=\"{}\" data-right=\"{}\" data-steps=\"{}\" "
      "data-top=\"{}\" data-bottom=\"{}\" data-most=\"{}\" role=\"img\" aria-label=\"{}\">\n",
      kWidth, kHeight, kLeft, kWidth - 8, speed.steps, kTop, kHeight - kBottom, plot.top(),
      escape_attribute(
          base::tr("Time of a step over {} steps, median {}", speed.steps, short_seconds(speed.step_s))));
  const double every_s = round_number(plot.top() / 4);
  for (int tick = 0; tick * every_s <= plot.top(); ++tick) {
    const double seconds = tick * every_s;
    out += fmt::format("<path class=\"rule\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, plot.y(seconds), kWidth - 8);
    out += text(kLeft - 8, plot.y(seconds) + 5, "end", tick == 0 ? "0" : short_seconds(seconds));
  }
  const double every = std::max(1.0, round_number(static_cast<double>(speed.steps) / 8));
  for (double step = 0; step < static_cast<double>(speed.steps); step += every) {
    out += text(plot.x(step), kHeight - 8, "middle", grouped(std::llround(step)));
  }
  out += line("most", plot, speed.series, &model::StepBin::most_s);
  out += line("usual", plot, speed.series, &model::StepBin::median_s);
  double last_x = -kLabelWidth;
  int row = 0;
  for (const model::StepChange& change : speed.changes) {
    const double x = plot.x(static_cast<double>(change.step));
    out += fmt::format("<path class=\"change\" d=\"M{:.1f} {}V{}\"/>\n", x, kTop, kHeight - kBottom);
    const bool right = x < kWidth * 0.75;
    // A label beside one that is near goes below it.
    row = x - last_x < 2 * kLabelWidth ? (row + 1) % kLabelRows : 0;
    last_x = x;
    out += text(right ? x + 6 : x - 6, kTop + 6 + kLabelHeight * row, right ? "start" : "end",
                change.share > 0
                    ? base::tr("step {}: {} slower", grouped(change.step), percent(std::abs(change.share)))
                    : base::tr("step {}: {} faster", grouped(change.step), percent(std::abs(change.share))));
  }
  return out + reported_marks(plot, speed.steps, reported) + "</svg>\n";
}

size_t heat_level(double share) {
  return static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), share) - kBounds.begin());
}

std::string heat_level_text(size_t level) {
  return level < kBounds.size() ? base::tr("up to {} more", percent(kBounds[level]))
                                : base::tr("over {} more", percent(kBounds.back()));
}

std::string heat_picture(const model::HeatMap& heat, double step_s) {
  if (heat.rows.size() < 2 || heat.columns == 0) {
    return "";
  }
  const auto rows = static_cast<double>(heat.rows.size());
  const double row = std::clamp(kHeatHeight / rows, kLowestRow, kHighestRow);
  const double column = (kWidth - kLeft - 8) / static_cast<double>(heat.columns);
  // One path per level: a stroke as high as a row for each run of equal cells.
  std::array<std::string, kHeatLevels> paths;
  std::vector<double> usual(heat.columns, 0);
  for (size_t c = 0; c < heat.columns; ++c) {
    std::vector<double> cells;
    for (size_t r = 0; r < heat.rows.size(); ++r) {
      if (const float own = heat.own_s[r * heat.columns + c]; own >= 0) {
        cells.push_back(static_cast<double>(own));
      }
    }
    usual[c] = quantile(cells, 0.5);
  }
  const auto level_at = [&](size_t r, size_t c) {
    const auto own = static_cast<double>(heat.own_s[r * heat.columns + c]);
    return own < 0 ? kHeatLevels : heat_level(step_s > 0 ? (own - usual[c]) / step_s : 0);
  };
  for (size_t r = 0; r < heat.rows.size(); ++r) {
    for (size_t c = 0; c < heat.columns;) {
      const size_t level = level_at(r, c);
      size_t end = c + 1;
      while (end < heat.columns && level_at(r, end) == level) {
        ++end;
      }
      if (level < kHeatLevels) {
        paths[level] +=
            fmt::format("M{:.1f} {:.1f}h{:.1f}", kLeft + static_cast<double>(c) * column,
                        kTop + (static_cast<double>(r) + 0.5) * row, static_cast<double>(end - c) * column);
      }
      c = end;
    }
  }
  const double bottom = kTop + rows * row;
  std::string out = fmt::format(
      "<svg class=\"heat\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
      bottom + kBottom,
      escape_attribute(base::tr("Own time of {} rows of ranks over {} steps", heat.rows.size(), heat.steps)));
  for (size_t level = 0; level < kHeatLevels; ++level) {
    out += fmt::format("<path class=\"h{}\" stroke-width=\"{:.2f}\" d=\"{}\"/>\n", level, row, paths[level]);
  }
  const size_t every = static_cast<size_t>(std::ceil(16 / row));
  for (size_t r = 0; r < heat.rows.size(); r += every) {
    out += text(kLeft - 8, kTop + (static_cast<double>(r) + 0.5) * row + 5, "end", heat.rows[r].brief());
  }
  out += text(kLeft, bottom + 20, "middle", "0");
  out += text(kWidth - 8, bottom + 20, "end", base::tr("step {}", grouped(heat.steps - 1)));
  return out + "</svg>\n";
}

}  // namespace xpurun::report
