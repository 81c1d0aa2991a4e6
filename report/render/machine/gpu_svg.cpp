#include "report/render/machine/gpu_svg.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/evidence/gpu_inventory.h"
#include "report/flamegraph/escape.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace xpurun::report {

using base::tr;
using model::HostUse;
using model::HostUseHistory;
using model::UseTrack;

namespace {

constexpr std::array kGpuUses = {HostUse::gpu_load, HostUse::gpu_clock, HostUse::gpu_temperature,
                                 HostUse::gpu_power};
constexpr double kWholeWidth = 1000;
constexpr double kLabelWidth = 70;
constexpr double kPanelGap = 16;
constexpr double kPanelWidth = (kWholeWidth - kLabelWidth) / static_cast<double>(kGpuUses.size()) - kPanelGap;
constexpr double kPanelHeight = 34;
constexpr double kPanelRowGap = 8;
constexpr double kHead = 22;       // names and scales of the columns
constexpr double kTimesFoot = 36;  // begin and end of the run, and their steps
constexpr size_t kMostGpus = 16;
constexpr size_t kMostGpuBands = 40;  // of a GPU

std::string value_words(HostUse use, double value) {
  const auto number = std::llround(std::clamp(value, 0.0, 1e9));
  switch (use) {
    case HostUse::gpu_load:
      return fmt::format("{} %", std::llround(100 * std::clamp(value, 0.0, 1.0)));
    case HostUse::gpu_clock:
      return fmt::format("{} MHz", grouped(number));
    case HostUse::gpu_temperature:
      return fmt::format("{} °C", number);
    default:
      return fmt::format("{} W", number);
  }
}

std::string column_words(HostUse use) {
  switch (use) {
    case HostUse::gpu_load:
      return tr("Load");
    case HostUse::gpu_clock:
      return tr("SM clock");
    case HostUse::gpu_temperature:
      return tr("Temperature");
    default:
      return tr("Power");
  }
}

std::vector<int> gpus_of(const HostUseHistory& use) {
  std::set<int> out;
  for (const UseTrack& t : use.tracks) {
    const int gpu = model::gpu_index_of(t.object);
    if (gpu >= 0 && std::find(kGpuUses.begin(), kGpuUses.end(), t.use) != kGpuUses.end()) {
      out.insert(gpu);
    }
  }
  return {out.begin(), out.end()};
}

double scale_of(const HostUseHistory& use, HostUse what) {
  double out = 0;
  for (const UseTrack& t : use.tracks) {
    out = t.use == what ? std::max(out, highest(&t)) : out;
  }
  return what == HostUse::gpu_load ? 1 : out;
}

// "1,200 to 1,980 MHz"
std::string range_words(const UseTrack& track) {
  double low = -1;
  for (const double v : track.values) {
    low = v >= 0 && (low < 0 || v < low) ? v : low;
  }
  const double high = highest(&track);
  return low < 0 ? std::string() : tr("{} to {}", value_words(track.use, low), value_words(track.use, high));
}

double left_of(size_t column) {
  return kLabelWidth + static_cast<double>(column) * (kPanelWidth + kPanelGap);
}

class GpuPicture {
 public:
  GpuPicture(const model::MachineHistory& machine, const std::vector<MachineBand>& bands, const RunAxis& axis,
             const StepTimes& steps)
      : use_(machine.use), bands_(bands), axis_(axis), steps_(steps) {}

  std::string row(int gpu, double top) const {
    const std::string object = model::gpu_object(gpu);
    std::string out = text_at(kLabelWidth - 8, top + 21, "end", "name", object);
    for (size_t column = 0; column < kGpuUses.size(); ++column) {
      out += panel(column, object, top);
    }
    return out;
  }

  std::string head() const {
    std::string out;
    for (size_t column = 0; column < kGpuUses.size(); ++column) {
      const double high = scale_of(use_, kGpuUses[column]);
      out += text_at(left_of(column), 14, "start", "name", column_words(kGpuUses[column]));
      out += text_at(left_of(column) + kPanelWidth, 14, "end", "unit",
                     high > 0 ? value_words(kGpuUses[column], high) : "");
    }
    return out;
  }

  std::string foot(double bottom) const {
    std::string out;
    for (size_t column = 0; column < kGpuUses.size(); ++column) {
      const double left = left_of(column);
      out += text_at(left, bottom + 15, "start", "unit", axis_.time(0));
      out += text_at(left + kPanelWidth, bottom + 15, "end", "unit", axis_.time(axis_.end()));
      if (const int64_t step = steps_.step_at(axis_.end()); step >= 0) {
        out += text_at(left + kPanelWidth, bottom + 31, "end", "unit", tr("step {}", grouped(step)));
      }
    }
    return out;
  }

 private:
  std::string panel(size_t column, const std::string& object, double top) const {
    const HostUse what = kGpuUses[column];
    const UsePlot plot(use_, axis_, left_of(column), kPanelWidth, kPanelHeight);
    const UseTrack* track = find_track(use_, what, object);
    const std::string range = track == nullptr ? tr("not known") : range_words(*track);
    std::string out = fmt::format(
        "<g><title>{}</title><rect class=\"row\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.0f}\"/>\n",
        escape_attribute(fmt::format("{}, {}: {}", object, column_words(what), range)), left_of(column), top,
        kPanelWidth, kPanelHeight);
    if (track != nullptr) {
      out += fmt::format("<path class=\"use\" d=\"{}\"/>\n",
                         plot.path(*track, std::max(scale_of(use_, what), 1e-9), top, true));
    }
    size_t drawn = 0;
    for (const MachineBand& band : bands_) {
      if (band.gpu == object && drawn++ < kMostGpuBands) {
        out += plot.band(band, top, kPanelHeight);
      }
    }
    return out + "</g>\n";
  }

  const HostUseHistory& use_;
  const std::vector<MachineBand>& bands_;
  const RunAxis& axis_;
  const StepTimes& steps_;
};

}  // namespace

std::string gpu_plot(const model::MachineHistory& machine, const std::vector<MachineBand>& bands,
                     const RunAxis& axis, const StepTimes& steps) {
  const HostUseHistory& use = machine.use;
  const std::vector<int> gpus = gpus_of(use);
  if (gpus.empty() || axis.empty() || !axis.has_clock() || use.begin_wall_ns <= 0 || !(use.bin_s > 0)) {
    return "";
  }
  const GpuPicture picture(machine, bands, axis, steps);
  const size_t rows = std::min(gpus.size(), kMostGpus);
  std::string body = picture.head();
  for (size_t i = 0; i < rows; ++i) {
    body += picture.row(gpus[i], kHead + static_cast<double>(i) * (kPanelHeight + kPanelRowGap));
  }
  const double bottom = kHead + static_cast<double>(rows) * (kPanelHeight + kPanelRowGap) - kPanelRowGap;
  body += picture.foot(bottom);
  return fmt::format(
      "<svg class=\"machine\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      kWholeWidth, bottom + kTimesFoot,
      escape_attribute(
          tr("Load, clock, temperature and power of {} GPUs over the time of the run", gpus.size())),
      body);
}

}  // namespace xpurun::report
