#include "report/run/gpu_findings.h"

#include "common/base/tr.h"
#include "report/diagnosis/rules/machine_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>

namespace xpurun::report {

using base::later;
using base::tr;
using model::GpuUnit;
using model::MachineFact;

namespace {

constexpr double kSameShare = 0.98;
constexpr double kLowerClock = 0.9;
constexpr uint64_t kLeastReadings = 24;  // two minutes
constexpr size_t kMostUnits = 4;

struct UnitOfJob {
  size_t node = 0;
  GpuUnit unit;
  base::Rank rank = base::kNoRank;
  double clock_mhz = -1;  // mean of the run
};

std::vector<UnitOfJob> units_of(const RunReport& report) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<UnitOfJob> out;
  for (size_t node = 0; node < report.gpu_health.size(); ++node) {
    const model::GpuHealth& health = report.gpu_health[node];
    const auto clocks = health.clocks(0, kNever);
    for (const GpuUnit& unit : health.inventory.units) {
      UnitOfJob one{.node = node, .unit = unit};
      if (node < report.machines.size()) {
        one.rank = model::rank_on(report.machines[node].places, unit.pci);
      }
      for (const model::GpuClocks& c : clocks) {
        if (c.uuid == unit.uuid && c.samples >= kLeastReadings) {
          one.clock_mhz = c.sm_median_mhz;
        }
      }
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::string unit_words(const RunReport& report, const UnitOfJob& u) {
  const std::string gpu = on_host(report.run, u.node) + model::gpu_object(u.unit.index);
  return u.rank >= 0 ? tr("{} (rank {})", gpu, u.rank) : gpu;
}

// What GPUs of one model have in common.
struct Property {
  std::string_view id;
  Severity severity = Severity::note;
  double least = kSameShare;  // of the others' median
  bool of_ranks = false;      // only GPUs that a rank has: the others have nothing to do
  std::string_view next;
  std::string_view command;
  double (*of)(const UnitOfJob&) = nullptr;  // negative: unknown
  std::string (*words)(const std::string& unit, double own, double usual) = nullptr;
};

constexpr Property kProperties[] = {
    {.id = "gpu.power_limit",
     .severity = Severity::warning,
     .next = later("set the same power limit on all GPUs"),
     .command = "nvidia-smi -q -d POWER",
     .of = [](const UnitOfJob& u) { return u.unit.power_limit_w; },
     .words =
         [](const std::string& unit, double own, double usual) {
           return tr("{} has a power limit of {:.0f} W, the other GPUs have {:.0f} W", unit, own, usual);
         }},
    {.id = "gpu.clock",
     .severity = Severity::warning,
     .least = kLowerClock,
     .of_ranks = true,
     .next = later("check power, cooling and clock settings of this GPU"),
     .command = "nvidia-smi -q -d CLOCK,PERFORMANCE",
     .of = [](const UnitOfJob& u) { return u.clock_mhz; },
     .words =
         [](const std::string& unit, double own, double usual) {
           return tr("{} ran at {:.0f} MHz on average, the other GPUs at {:.0f} MHz", unit, own, usual);
         }},
    {.id = "gpu.clock_limit",
     .severity = Severity::warning,
     .next = later("set the same clocks on all GPUs"),
     .command = "nvidia-smi -q -d CLOCK",
     .of = [](const UnitOfJob& u) { return static_cast<double>(u.unit.sm_clock_max_mhz); },
     .words =
         [](const std::string& unit, double own, double usual) {
           return tr("{} has a highest clock of {:.0f} MHz, the other GPUs have {:.0f} MHz", unit, own,
                     usual);
         }},
    {.id = "gpu.pcie_width",
     .severity = Severity::warning,
     .next = later("have the device's seat and slot checked"),
     .command = "nvidia-smi -q -d PCIE",
     // Fewer lanes than the GPU could have are a fact of their own.
     .of =
         [](const UnitOfJob& u) {
           return u.unit.pcie_width < u.unit.pcie_width_max ? -1.0 : static_cast<double>(u.unit.pcie_width);
         },
     .words =
         [](const std::string& unit, double own, double usual) {
           return tr("{} has {:.0f} PCIe lanes, the other GPUs have {:.0f}", unit, own, usual);
         }},
    {.id = "gpu.pcie_generation",
     .severity = Severity::warning,
     .next = later("have the device's seat and slot checked"),
     .command = "nvidia-smi -q -d PCIE",
     .of = [](const UnitOfJob& u) { return static_cast<double>(u.unit.pcie_generation_max); },
     .words =
         [](const std::string& unit, double own, double usual) {
           return tr("{} has a slot of PCIe generation {:.0f}, the other GPUs have {:.0f}", unit, own, usual);
         }},
};

void compare(const RunReport& report, const Property& property, const std::vector<UnitOfJob>& units,
             std::vector<Finding>& out) {
  std::vector<double> values;
  for (const UnitOfJob& u : units) {
    if (property.of(u) > 0 && (!property.of_ranks || u.rank >= 0)) {
      values.push_back(property.of(u));
    }
  }
  if (values.size() < 2) {
    return;
  }
  // The median; of two GPUs the better one is the measure.
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  const double usual = *middle;
  Finding f{.severity = property.severity,
            .id = std::string(property.id),
            .title = {},
            .next = tr(property.next),
            .command = std::string(property.command)};
  for (const UnitOfJob& u : units) {
    const double own = property.of(u);
    if (own <= 0 || own >= property.least * usual || (property.of_ranks && u.rank < 0)) {
      continue;
    }
    const std::string words = property.words(unit_words(report, u), own, usual);
    if (f.title.empty()) {
      f.title = words;
    } else if (f.evidence.size() < kMostUnits) {
      f.evidence.push_back(words);
    }
  }
  if (!f.title.empty()) {
    out.push_back(std::move(f));
  }
}

// A limit that all GPUs have is the owner's choice, and worth a note.
void add_lower_limit(const std::vector<UnitOfJob>& units, std::vector<Finding>& out) {
  const bool all = !units.empty() && std::all_of(units.begin(), units.end(), [&](const UnitOfJob& u) {
    return u.unit.power_limit_w > 0 && u.unit.power_limit_w < kSameShare * u.unit.power_default_w;
  });
  if (all) {
    const GpuUnit& unit = units.front().unit;
    out.push_back(
        {.severity = Severity::note,
         .id = "gpu.power_limit",
         .title = tr("the power limit of all GPUs is below their default: {:.0f} W instead of {:.0f} W",
                     unit.power_limit_w, unit.power_default_w),
         .command = "nvidia-smi -q -d POWER"});
  }
}

void add_damage_before(const RunReport& report, std::vector<Finding>& out) {
  for (size_t node = 0; node < report.machines.size(); ++node) {
    for (const model::MachineSeries& s : report.machines[node].series) {
      if (s.fact != MachineFact::ecc_uncorrected || !(s.first > 0)) {
        continue;
      }
      model::MachineSeries before = s;
      before.spells.clear();
      out.push_back({.severity = Severity::warning,
                     .id = "gpu.damage_before",
                     .title = tr("before the run, {}{}", on_host(report.run, node),
                                 machine_words(report.machines[node], before, s.first)),
                     .next = tr("reset the GPU before the next job, and test its memory"),
                     .command = "nvidia-smi --gpu-reset -i INDEX; dcgmi diag -r 3"});
    }
  }
}

}  // namespace

Advice gpu_advice(MachineFact fact) {
  switch (fact) {
    case MachineFact::nvlink_recoveries:
    case MachineFact::nvlink_replays:
    case MachineFact::nvlink_crc:
      return {Severity::warning,
              later("have the NVLink checked before the link fails: drain the host, run a diagnosis"),
              "nvidia-smi nvlink -e; dcgmi diag -r 3"};
    case MachineFact::nvlink_down:
      return {Severity::error,
              later("reset the GPUs of this host; if the link stays down, replace the hardware"),
              "nvidia-smi nvlink -s"};
    case MachineFact::gpu_pcie_replays:
      return {Severity::note, later("have the device's seat and slot checked"), "nvidia-smi -q -d PCIE"};
    case MachineFact::ecc_corrected:
      return {Severity::note,
              later("watch whether the number grows: corrected errors come before uncorrected ones"),
              "nvidia-smi -q -d ECC"};
    case MachineFact::ecc_uncorrected:
      return {Severity::error, later("stop using the GPU until it was reset, and test its memory"),
              "nvidia-smi --gpu-reset -i INDEX; dcgmi diag -r 3"};
    case MachineFact::rows_remapped:
    case MachineFact::pages_retired:
      return {Severity::warning, later("reset the GPU before the next job; replace it if more rows follow"),
              "nvidia-smi -q -d ROW_REMAPPER"};
    case MachineFact::remap_pending:
      return {Severity::warning, later("reset the GPU before the next job"),
              "nvidia-smi --gpu-reset -i INDEX"};
    case MachineFact::remap_failed:
      return {Severity::error, later("replace the GPU"), "nvidia-smi -q -d ROW_REMAPPER"};
    case MachineFact::xid:
      return {Severity::warning, later("look the Xid up in NVIDIA's list"), "dmesg | grep Xid"};
    case MachineFact::gpu_slowed:
      return {Severity::warning, later("check cooling and power supply of the GPU"),
              "nvidia-smi -q -d PERFORMANCE,TEMPERATURE"};
    case MachineFact::gpu_lost:
      return {Severity::error, later("restart the host; if the GPU is lost again, replace it"), "nvidia-smi"};
    default:
      return {};
  }
}

void add_gpu_findings(const RunReport& report, std::vector<Finding>& out) {
  std::map<std::string, std::vector<UnitOfJob>> by_model;
  for (UnitOfJob& u : units_of(report)) {
    by_model[u.unit.name].push_back(std::move(u));
  }
  for (const auto& named : by_model) {
    const size_t before = out.size();
    for (const Property& property : kProperties) {
      compare(report, property, named.second, out);
    }
    if (out.size() == before) {
      add_lower_limit(named.second, out);
    }
  }
  add_damage_before(report, out);
}

}  // namespace xpurun::report
