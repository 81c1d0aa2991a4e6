// Checks the GPUs through NVML in a child process: errors, states, connections, differences.
#include "commands/burn/gpu_health.h"
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "common/base/clock.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/evidence/clock_helper.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr double kNvmlLimitS = 30;
constexpr int kNoNvml = 2;

// In a child: the lines of a watching helper.
int ask_nvml() {
  auto speeds = GpuSpeeds::open();
  auto counts = GpuCountReader::open(std::string(kNvmlLibrary));
  if (!speeds || !counts) {
    return kNoNvml;
  }
  WatchLines lines(std::move(*speeds), std::move(*counts));
  return base::put_out(lines.next(true)) ? 0 : 1;
}

// "GPU 0-7: NV18", or for each kind of path its number of pairs.
std::string path_words(const model::GpuInventory& inventory) {
  std::map<std::string, size_t> pairs;
  for (const model::GpuPath& path : inventory.paths) {
    ++pairs[path.path];
  }
  std::vector<std::string> out;
  for (const auto& [path, count] : pairs) {
    out.push_back(tr("{} between {} pairs", path, count));
  }
  return base::join(out, ", ");
}

}  // namespace

Findings check_gpu_health(const DoctorContext& /*context*/) {
  const ProgramOutput answer = run_function(ask_nvml, kNvmlLimitS);
  if (answer.status == kNoNvml) {
    return {};  // the check of the driver says so
  }
  model::GpuHealth health;
  for (const std::string_view line : base::split(answer.output, '\n')) {
    add_line(health, line, base::wall_ns(), kWatchIntervalS);
  }
  if (answer.status != 0 || health.inventory.units.empty()) {
    return {{.check = "gpus",
             .grade = Grade::warn,
             .text = tr("NVML did not answer within {:.0f} s", kNvmlLimitS),
             .lost = tr("errors of links and memory, clocks and limits of the GPUs"),
             .remedy = "nvidia-smi"}};
  }
  Findings out;
  for (const report::Finding& f : findings_of(health)) {
    out.push_back({.check = "gpus",
                   .grade = f.severity == report::Severity::note ? Grade::ok : Grade::warn,
                   .text = base::sanitize(f.title),
                   .lost = {},
                   .remedy = base::sanitize(f.next)});
  }
  const std::string paths = path_words(health.inventory);
  const auto& units = health.inventory.units;
  out.push_back({.check = "gpus",
                 .text = paths.empty()
                             ? tr("NVML reports errors, clocks and limits of {} GPUs", units.size())
                             : tr("NVML reports errors, clocks and limits of {} GPUs, connected by {}",
                                  units.size(), base::sanitize(paths))});
  const bool cold = std::any_of(units.begin(), units.end(), [](const auto& u) { return u.persistence == 0; });
  if (cold) {
    out.push_back({.check = "gpus",
                   .text = tr("persistence mode is off: without a user of the GPUs, the driver forgets their "
                              "error counters, and the next start is slower"),
                   .remedy = "nvidia-smi -pm 1"});
  }
  return out;
}

}  // namespace xpurun::launcher
