#include "report/render/comparison/spread_pair.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/compare/verdict.h"
#include "report/flamegraph/escape.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

using model::ComparedMetric;

constexpr size_t kMostPairs = 12;
constexpr double kPairWidth = 1000;
constexpr double kPairLeft = 40;  // of the letters
constexpr double kPairRight = 30;
constexpr double kPairHead = 26;
constexpr double kPairLine = 22;
constexpr double kPairFoot = 34;
constexpr double kPairBox = 6;  // half of its height
constexpr size_t kLongestName = 110;
constexpr int kPairTicks = 4;

struct Scale {
  double from = 0;
  double to = 0;

  explicit Scale(const ComparedMetric& m)
      : from(std::min(m.a_spread_s.front(), m.b_spread_s.front())),
        to(std::max(m.a_spread_s.back(), m.b_spread_s.back())) {}
  double at(double part) const { return from + part * (to - from); }
  double x(double seconds) const {
    return kPairLeft + (seconds - from) / (to - from) * (kPairWidth - kPairLeft - kPairRight);
  }
};

bool is_shown(const ComparedMetric& m) {
  const bool differs = m.judgement == model::Judgement::slower || m.judgement == model::Judgement::faster;
  constexpr size_t kNumbers = 5;
  return (differs || m.kind == model::MetricKind::step) && m.a_spread_s.size() == kNumbers &&
         m.b_spread_s.size() == kNumbers &&
         std::max(m.a_spread_s.back(), m.b_spread_s.back()) >
             std::min(m.a_spread_s.front(), m.b_spread_s.front());
}

std::string box_of(const Scale& scale, const std::vector<double>& s, const char* letter, double y) {
  const double from = scale.x(s[1]);
  const double to = std::max(scale.x(s[3]), from + 1);
  return fmt::format(
      "<text x=\"0\" y=\"{:.1f}\">{}</text>\n<g><title>{}</title><path class=\"reach\" d=\"M{:.1f} "
      "{:.1f}H{:.1f}\"/>"
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>"
      "<path class=\"median\" d=\"M{:.1f} {:.1f}V{:.1f}\"/></g>\n",
      y + 4, letter,
      escape_attribute(base::tr("{}: median {}, half of the blocks {} to {}, all {} to {}", letter,
                                call_time(s[2]), call_time(s[1]), call_time(s[3]), call_time(s[0]),
                                call_time(s[4]))),
      scale.x(s[0]), y, scale.x(s[4]), from, y - kPairBox, to - from, 2 * kPairBox, scale.x(s[2]),
      y - kPairBox - 2, y + kPairBox + 2);
}

std::string pair_of(const ComparedMetric& m, double top) {
  const Scale scale(m);
  const double first = top + kPairHead;
  const double bottom = first + 2 * kPairLine;
  std::string out = fmt::format(
      "<text class=\"name\" x=\"0\" y=\"{:.1f}\">{}</text>\n", top + 16,
      escape_attribute(base::elide_middle(metric_words(m.kind, base::sanitize(m.name)), kLongestName)));
  for (int tick = 0; tick <= kPairTicks; ++tick) {
    const double x = scale.x(scale.at(static_cast<double>(tick) / kPairTicks));
    out += fmt::format("<path class=\"rule\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, first, bottom);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, bottom + 14,
                       tick == kPairTicks ? "end" : "middle",
                       call_time(scale.at(static_cast<double>(tick) / kPairTicks)));
  }
  return out + box_of(scale, m.a_spread_s, "A", first + kPairLine / 2) +
         box_of(scale, m.b_spread_s, "B", first + kPairLine * 3 / 2);
}

}  // namespace

std::string spread_pairs(const model::Comparison& comparison) {
  std::string body;
  double top = 0;
  size_t shown = 0;
  for (const ComparedMetric& m : comparison.metrics) {
    if (shown < kMostPairs && is_shown(m)) {
      body += pair_of(m, top);
      top += kPairHead + 2 * kPairLine + kPairFoot;
      ++shown;
    }
  }
  return shown == 0
             ? ""
             : fmt::format(
                   "<svg class=\"spread pairs\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" "
                   "aria-label=\"{}\">\n{}</svg>\n",
                   kPairWidth, top, escape_attribute(base::tr("Values of A and B: {} metrics", shown)), body);
}

}  // namespace xpurun::report
