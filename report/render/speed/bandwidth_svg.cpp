#include "report/render/speed/bandwidth_svg.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/flamegraph/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace xpurun::report {

namespace {

constexpr double kBandwidthWidth = 1000;
constexpr double kBandwidthHeight = 260;
constexpr double kBandwidthLeft = 90;
constexpr double kBandwidthTop = 12;
constexpr double kBandwidthBottom = 30;

// From the logarithm of the value to [0, 1], with whole steps at both ends.
struct LogAxis {
  double low = std::numeric_limits<double>::max();
  double high = std::numeric_limits<double>::lowest();

  void cover(double logarithm) {
    low = std::min(low, std::floor(logarithm));
    high = std::max(high, std::floor(logarithm) + 1);
  }
  double at(double logarithm) const { return (logarithm - low) / (high - low); }
};

std::string label(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_attribute(words));
}

bool has_point(const model::CollectiveRow& row) {
  return row.mean_bytes >= 1 && row.transfer_bus_gb_s > 0;
}

// By the rank's own time, which includes waiting for others; 0: unknown.
double own_gb_s(const model::DurationRow& row, const model::RankDurations& rank) {
  return row.bytes >= 1 && rank.median_s > 0 ? row.bytes * row.bus_factor / rank.median_s * 1e-9 : 0;
}

}  // namespace

std::string bandwidth_plot(const std::vector<model::CollectiveRow>& rows,
                           const std::vector<model::DurationRow>& durations) {
  LogAxis size;  // powers of 2
  LogAxis rate;  // powers of 10, GB/s
  size_t points = 0;
  for (const model::CollectiveRow& row : rows) {
    if (has_point(row)) {
      size.cover(std::log2(row.mean_bytes));
      rate.cover(std::log10(row.transfer_bus_gb_s));
      ++points;
    }
  }
  if (points < 2) {
    return "";
  }
  for (const model::DurationRow& row : durations) {
    for (const model::RankDurations& rank : row.ranks) {
      if (const double gb_s = own_gb_s(row, rank); gb_s > 0) {
        size.cover(std::log2(row.bytes));
        rate.cover(std::log10(gb_s));
      }
    }
  }
  const auto x = [&](double bytes) {
    return kBandwidthLeft + size.at(std::log2(bytes)) * (kBandwidthWidth - kBandwidthLeft - 40);
  };
  const auto y = [&](double gb_s) {
    return kBandwidthTop +
           (1 - rate.at(std::log10(gb_s))) * (kBandwidthHeight - kBandwidthTop - kBandwidthBottom);
  };
  std::string out = fmt::format(
      "<svg class=\"bandwidth\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<desc>{}</desc>\n",
      kBandwidthWidth, kBandwidthHeight,
      escape_attribute(base::tr("Bus bandwidth of {} rows of collectives against their size", points)),
      base::tr("Large points: a row of the table, from the last arrival on; small points: a rank, by its own "
               "time."));
  for (double power = rate.low; power <= rate.high; ++power) {
    const double at = y(std::pow(10, power));
    out +=
        fmt::format("<path class=\"rule\" d=\"M{} {:.1f}H{}\"/>\n", kBandwidthLeft, at, kBandwidthWidth - 40);
    out += label(kBandwidthLeft - 8, at + 5, "end", fmt::format("{:g} GB/s", std::pow(10, power)));
  }
  const double every = std::max(1.0, std::ceil((size.high - size.low) / 8));
  for (double power = size.low; power <= size.high; power += every) {
    out += label(x(std::exp2(power)), kBandwidthHeight - 8, "middle",
                 base::human_size(static_cast<uint64_t>(std::exp2(power))));
  }
  for (const model::DurationRow& row : durations) {
    for (const model::RankDurations& rank : row.ranks) {
      if (const double gb_s = own_gb_s(row, rank); gb_s > 0) {
        out += fmt::format(
            "<circle class=\"rank\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}</title></circle>\n",
            x(row.bytes), y(gb_s),
            escape_attribute(
                base::tr("rank {}: {}: {:.4g} GB/s by its own time", rank.rank, row.name, gb_s)));
      }
    }
  }
  for (const model::CollectiveRow& row : rows) {
    if (has_point(row)) {
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}</title></circle>\n",
                         x(row.mean_bytes), y(row.transfer_bus_gb_s),
                         escape_attribute(base::tr("{} {}, ranks {}: {:.4g} GB/s", row.operation,
                                                   base::human_size(static_cast<uint64_t>(row.mean_bytes)),
                                                   row.members, row.transfer_bus_gb_s)));
    }
  }
  return out + "</svg>\n";
}

}  // namespace xpurun::report
