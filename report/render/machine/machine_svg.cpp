#include "report/render/machine/machine_svg.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/flamegraph/escape.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::HostUse;
using model::HostUseHistory;
using model::UseTrack;

namespace {

constexpr double kPlotWidth = 1000;
constexpr double kPlotLeft = 150;
constexpr double kPlotRight = 90;  // the scale
constexpr double kRowHeight = 44;
constexpr double kRowGap = 12;
constexpr double kPlotFoot = 40;  // times, and below them steps
constexpr size_t kMostRows = 16;
constexpr size_t kMostBands = 40;

// The tracks of one row: what is read or received is the area, the other one a line.
struct UseRow {
  std::string label;
  std::string unit_words;
  const UseTrack* area = nullptr;
  const UseTrack* line = nullptr;
};

std::vector<UseRow> use_rows(const HostUseHistory& use) {
  std::vector<UseRow> out;
  for (const UseTrack& t : use.tracks) {
    const std::string object = base::sanitize(t.object);
    switch (t.use) {
      case HostUse::cpu:
        out.push_back({tr("CPUs"), tr("busy"), &t, nullptr});
        break;
      case HostUse::memory:
        out.push_back({tr("Memory"), tr("used"), &t, nullptr});
        break;
      case HostUse::disk_read:
        out.push_back({tr("Disk {}", object), tr("read, line: written"), &t,
                       find_track(use, HostUse::disk_written, t.object)});
        break;
      case HostUse::net_received:
        out.push_back({tr("Network {}", object), tr("received, line: sent"), &t,
                       find_track(use, HostUse::net_sent, t.object)});
        break;
      case HostUse::link_received:
        out.push_back({tr("Link {}", object), tr("received, line: sent"), &t,
                       find_track(use, HostUse::link_sent, t.object)});
        break;
      case HostUse::group_processes:
        out.push_back({tr("Job's memory"), tr("processes, line: files"), &t,
                       find_track(use, HostUse::group_cache, t.object)});
        break;
      case HostUse::group_cache:
      case HostUse::group_shared:
      case HostUse::disk_written:
      case HostUse::net_sent:
      case HostUse::link_sent:
      case HostUse::gpu_load:
      case HostUse::gpu_clock:
      case HostUse::gpu_temperature:
      case HostUse::gpu_power:
        break;
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const UseRow& a, const UseRow& b) { return a.area->use < b.area->use; });
  out.resize(std::min(out.size(), kMostRows));
  return out;
}

std::string amount_words(HostUse use, double value) {
  if (model::is_share_of_host(use)) {
    return fmt::format("{:.0f} %", 100 * value);
  }
  const std::string size = base::human_size(static_cast<uint64_t>(std::clamp(value, 0.0, 1e15)));
  return model::is_amount(use) ? size : fmt::format("{}/s", size);
}

std::string row_of(const UsePlot& plot, const UseRow& row, double top) {
  const bool share = model::is_share_of_host(row.area->use);
  const double peak = std::max(highest(row.area), highest(row.line));
  const double high = share ? 1 : std::max(peak, 1.0);
  const std::string most = tr("at most {}", amount_words(row.area->use, peak));
  std::string out = fmt::format(
      "<g><title>{}</title><rect class=\"row\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\"/>\n",
      escape_attribute(fmt::format("{}: {}", row.label, most)), kPlotLeft, top,
      kPlotWidth - kPlotLeft - kPlotRight, kRowHeight);
  out += fmt::format("<path class=\"use\" d=\"{}\"/>\n", plot.path(*row.area, high, top, true));
  if (row.line != nullptr) {
    out += fmt::format("<path class=\"second\" d=\"{}\"/>\n", plot.path(*row.line, high, top, false));
  }
  out += text_at(kPlotLeft - 8, top + 18, "end", "name", row.label);
  out += text_at(kPlotLeft - 8, top + 34, "end", "unit", row.unit_words);
  out += text_at(kPlotWidth - kPlotRight + 8, top + 12, "start", "unit",
                 amount_words(row.area->use, share ? high : peak));
  return out + "</g>\n";
}

std::string foot_of(const UsePlot& plot, const RunAxis& axis, const StepTimes& steps, double bottom) {
  std::string out;
  for (const double at : axis.ticks()) {
    const double x = plot.x(at);
    out += fmt::format("<path class=\"rule\" d=\"M{:.1f} 0V{:.1f}\"/>\n", x, bottom);
    out += text_at(x, bottom + 15, "middle", "unit", axis.time(at));
    if (const int64_t step = steps.step_at(at); step >= 0) {
      out += text_at(x, bottom + 31, "middle", "unit", tr("step {}", grouped(step)));
    }
  }
  return out;
}

}  // namespace

std::string machine_plot(const HostUseHistory& use, const std::vector<MachineBand>& bands,
                         const RunAxis& axis, const StepTimes& steps) {
  const std::vector<UseRow> rows = use_rows(use);
  if (rows.empty() || axis.empty() || !axis.has_clock() || use.begin_wall_ns <= 0 || !(use.bin_s > 0)) {
    return "";
  }
  const UsePlot plot(use, axis, kPlotLeft, kPlotWidth - kPlotLeft - kPlotRight, kRowHeight);
  const double bottom = static_cast<double>(rows.size()) * (kRowHeight + kRowGap) - kRowGap;
  std::string body;
  for (size_t i = 0; i < rows.size(); ++i) {
    body += row_of(plot, rows[i], static_cast<double>(i) * (kRowHeight + kRowGap));
  }
  body += foot_of(plot, axis, steps, bottom);
  size_t drawn = 0;
  for (const MachineBand& band : bands) {
    if (band.gpu.empty() && drawn++ < kMostBands) {
      body += plot.band(band, 0, bottom);
    }
  }
  return fmt::format(
      "<svg class=\"machine\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      kPlotWidth, bottom + kPlotFoot,
      escape_attribute(tr("What the host used over the time of the run: {} rows", rows.size())), body);
}

}  // namespace xpurun::report
