#include "report/render/machine/machine_section.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/wording.h"
#include "report/render/machine/gpu_svg.h"
#include "report/render/machine/machine_svg.h"
#include "report/speed/wording.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using kainjow::mustache::data;

namespace {

constexpr size_t kMostHosts = 16;
constexpr double kLeastShown = 0.05;  // of the time of a rank's CPUs

std::vector<MachineBand> bands_of(const RunReport& report, const model::MachineHistory& machine) {
  std::vector<MachineBand> out;
  for (const model::MachineSeries& s : machine.series) {
    const int index = model::gpu_index_of(s.object);
    const bool drawn = std::any_of(
        machine.use.tracks.begin(), machine.use.tracks.end(),
        [&](const model::UseTrack& t) { return index >= 0 && model::gpu_index_of(t.object) == index; });
    for (const model::MachineSpell& spell : telling_spells(machine, s)) {
      out.push_back({.from_s = seconds_in(report.run, spell.begin_wall_ns),
                     .to_s = seconds_in(report.run, spell.end_wall_ns),
                     .words = machine_words(machine, s, spell.amount),
                     .gpu = drawn ? model::gpu_object(index) : std::string()});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const MachineBand& a, const MachineBand& b) { return a.from_s < b.from_s; });
  return out;
}

// Times and what was wrong, as text for readers that see no picture.
std::vector<std::string> band_lines(const RunReport& report, const std::vector<MachineBand>& bands) {
  constexpr size_t kMostLines = 8;
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(bands.size(), kMostLines); ++i) {
    out.push_back(tr("{}: {}", moment_words(report.run, std::max(0.0, bands[i].from_s)), bands[i].words));
  }
  return out;
}

data intruder_data(const RunReport& report, const model::Intruder& i) {
  data d;
  d.set("rank", fmt::format("{}", i.rank));
  d.set("who", intruder_words(i));
  d.set("share", fmt::format("{:.0f} %", std::min(100 * i.share(), 100.0)));
  d.set("ready", i.watched_s > 0
                     ? fmt::format("{:.0f} %", std::clamp(100 * i.ready_s / i.watched_s, 0.0, 100.0))
                     : "");
  d.set("since", moment_words(report.run, std::max(0.0, seconds_in(report.run, i.begin_wall_ns))));
  return d;
}

}  // namespace

void put_machine(PageData& page, const RunReport& report, const PageLimits& limits) {
  const RunAxis axis(report.run);
  const StepTimes steps(report.speed, axis);
  data hosts{data::type::list};
  data intruders{data::type::list};
  size_t shown = 0;
  size_t rows = 0;
  bool tells = false;
  for (size_t node = 0; node < report.machines.size(); ++node) {
    const model::MachineHistory& machine = report.machines[node];
    const std::vector<MachineBand> bands = bands_of(report, machine);
    tells = tells || !bands.empty();
    const std::string plot =
        shown < std::min(kMostHosts, limits.rows) ? machine_plot(machine.use, bands, axis, steps) : "";
    const std::string gpus =
        shown < std::min(kMostHosts, limits.rows) ? gpu_plot(machine, bands, axis, steps) : "";
    if (!plot.empty() || !gpus.empty()) {
      ++shown;
      data d;
      d.set("host", base::sanitize(host_of(report.run, node)));
      d.set("named", report.run.nodes.size() > 1);
      d.set("plot", plot);
      d.set("gpu_plot", gpus);
      d.set("has_plot", !plot.empty());
      d.set("has_gpu_plot", !gpus.empty());
      put_list(d, "lines", string_list(band_lines(report, bands)));
      hosts.push_back(d);
    }
    for (const model::Intruder& i : machine.intruders) {
      if (i.share() >= kLeastShown && rows < limits.rows) {
        ++rows;
        intruders.push_back(intruder_data(report, i));
      }
    }
  }
  // The navigation is short: a host that did nothing wrong needs no entry.
  page.set("machine_tells", tells);
  page.set("has_machine", shown > 0 || rows > 0);
  put_list(page, "machine_hosts", hosts);
  put_list(page, "intruders", intruders);
}

}  // namespace xpurun::report
