#include "report/render/speed/spread_svg.h"

#include "common/base/tr.h"
#include "report/flamegraph/escape.h"
#include "report/render/speed/speed_svg.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr double kSpreadWidth = 1000;
constexpr double kSpreadLeft = 90;
constexpr double kRight = 40;
constexpr double kHead = 26;  // of a row: its name
constexpr double kLine = 18;  // of a rank
constexpr double kFoot = 24;  // the axis
constexpr double kBox = 5;    // half of its height
constexpr size_t kMostSpreads = 7;

// From seconds to the place on the axis of a row. It begins at 0: small differences look small.
class DurationAxis {
 public:
  explicit DurationAxis(const model::DurationRow& row) {
    for (const model::RankDurations& r : row.ranks) {
      high_ = std::max(high_, r.p95_s * 1.05);
    }
  }
  bool is_empty() const { return !(high_ > 0); }
  double x(double seconds) const {
    return kSpreadLeft + std::clamp(seconds / high_, 0.0, 1.0) * (kSpreadWidth - kSpreadLeft - kRight);
  }
  double high() const { return high_; }

 private:
  double high_ = 0;
};

// Collectives are often shorter than what short_seconds() shows.
std::string duration(double seconds) {
  return seconds > 0 && seconds < 1e-3 ? fmt::format("{:.3g} µs", seconds * 1e6) : short_seconds(seconds);
}

std::string label_at(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_attribute(words));
}

std::string about(const model::RankDurations& r) {
  return base::tr("rank {}: median {}, middle half {} to {}, 5 % to 95 % {} to {}, p99 {}, of {} calls",
                  r.rank, duration(r.median_s), duration(r.p25_s), duration(r.p75_s), duration(r.p5_s),
                  duration(r.p95_s), duration(r.p99_s), grouped(r.count));
}

std::string box(const DurationAxis& axis, const model::RankDurations& r, double y) {
  const double from = axis.x(r.p25_s);
  const double to = std::max(axis.x(r.p75_s), from + 1);
  return fmt::format(
      "<g><title>{}</title><path class=\"reach\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>"
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>"
      "<path class=\"median\" d=\"M{:.1f} {:.1f}V{:.1f}\"/></g>\n",
      escape_attribute(about(r)), axis.x(r.p5_s), y, axis.x(r.p95_s), from, y - kBox, to - from, 2 * kBox,
      axis.x(r.median_s), y - kBox - 2, y + kBox + 2);
}

std::string row_picture(const model::DurationRow& row, const DurationAxis& axis, double top) {
  const double first = top + kHead;
  const double bottom = first + kLine * static_cast<double>(row.ranks.size());
  std::string out = fmt::format("<text class=\"name\" x=\"0\" y=\"{:.1f}\">{}</text>\n", top + 16,
                                escape_attribute(base::tr(row.name)));
  const double every = round_number(axis.high() / 5);
  for (int tick = 0; tick * every <= axis.high(); ++tick) {
    const double x = axis.x(tick * every);
    out += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, first, bottom);
    out += label_at(x, bottom + 14, "middle", tick == 0 ? "0" : duration(tick * every));
  }
  for (size_t i = 0; i < row.ranks.size(); ++i) {
    const double y = first + kLine * (static_cast<double>(i) + 0.5);
    out += label_at(kSpreadLeft - 8, y + 4, "end", base::tr("rank {}", row.ranks[i].rank));
    out += box(axis, row.ranks[i], y);
  }
  return out;
}

}  // namespace

std::string spread_plot(const std::vector<model::DurationRow>& rows) {
  std::string body;
  double top = 0;
  size_t shown = 0;
  for (const model::DurationRow& row : rows) {
    const DurationAxis axis(row);
    if (row.ranks.empty() || axis.is_empty() || shown == kMostSpreads) {
      continue;
    }
    body += row_picture(row, axis, top);
    top += kHead + kLine * static_cast<double>(row.ranks.size()) + kFoot;
    ++shown;
  }
  if (shown == 0) {
    return "";
  }
  return fmt::format(
      "<svg class=\"spread\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">\n<desc>{}</desc>\n{}</svg>\n",
      kSpreadWidth, top, escape_attribute(base::tr("How durations are spread: {} rows", shown)),
      base::tr("One box a rank: from the 25th to the 75th percentile, with the median; the line reaches from "
               "the 5th to "
               "the 95th."),
      body);
}

}  // namespace xpurun::report
