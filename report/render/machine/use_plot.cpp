#include "report/render/machine/use_plot.h"

#include "report/flamegraph/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

using model::HostUse;
using model::HostUseHistory;
using model::UseTrack;

const UseTrack* find_track(const HostUseHistory& use, HostUse what, const std::string& object) {
  const auto it = std::find_if(use.tracks.begin(), use.tracks.end(),
                               [&](const UseTrack& t) { return t.use == what && t.object == object; });
  return it == use.tracks.end() ? nullptr : &*it;
}

double highest(const UseTrack* track) {
  double out = 0;
  for (const double v : track == nullptr ? std::vector<double>() : track->values) {
    out = std::isfinite(v) ? std::max(out, v) : out;
  }
  return out;
}

std::string text_at(double x, double y, const char* anchor, const char* look, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", look, x,
                     y, anchor, escape_attribute(words));
}

std::string UsePlot::path(const UseTrack& track, double high, double top, bool closed) const {
  std::string out;
  bool open = false;
  for (size_t i = 0; i < track.values.size(); ++i) {
    const double v = track.values[i];
    if (!(v >= 0)) {
      out += open && closed ? fmt::format("V{:.1f}z", top + height_) : "";
      open = false;
      continue;
    }
    const double from = x(begin_s(i));
    const double y = top + height_ * (1 - std::clamp(v / high, 0.0, 1.0));
    if (!open) {
      out += closed ? fmt::format("M{:.1f} {:.1f}V{:.1f}", from, top + height_, y)
                    : fmt::format("M{:.1f} {:.1f}", from, y);
    } else {
      out += fmt::format("V{:.1f}", y);
    }
    open = true;
    out += fmt::format("H{:.1f}", std::max(x(begin_s(i + 1)), from + 0.5));
  }
  return out + (open && closed ? fmt::format("V{:.1f}z", top + height_) : "");
}

std::string UsePlot::band(const MachineBand& band, double top, double height) const {
  const double from = x(band.from_s);
  return fmt::format(
      "<rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\"><title>{}</title></rect>\n",
      from, top, std::max(x(band.to_s) - from, 2.0), height, escape_attribute(band.words));
}

}  // namespace xpurun::report
