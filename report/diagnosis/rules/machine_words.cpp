#include "report/diagnosis/rules/machine_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::later;
using base::tr;
using model::MachineFact;
using model::MachineSeries;
using model::MachineSpell;
using model::MachineUnit;

namespace {

// Longer than the time between two readings.
constexpr double kLeastSpellS = 8;
constexpr double kLeastRetransmitted = 1000;
constexpr double kLeastLoss = 0.01;

std::string_view events_word(MachineFact fact) {
  switch (fact) {
    case MachineFact::link_downed:
      return later("losses of the link");
    case MachineFact::link_recoveries:
      return later("recoveries of the link");
    case MachineFact::symbol_errors:
      return later("symbol errors");
    case MachineFact::receive_errors:
      return later("receive errors");
    case MachineFact::retransmissions:
      return later("retransmissions and timeouts of RoCE");
    case MachineFact::carrier_changes:
      return later("changes of the carrier");
    case MachineFact::packet_errors:
      return later("packet errors");
    case MachineFact::packets_dropped:
      return later("dropped packets");
    case MachineFact::pcie_corrected:
      return later("corrected PCIe errors");
    case MachineFact::pcie_uncorrected:
      return later("uncorrected PCIe errors");
    case MachineFact::cpu_throttled:
      return later("slowdowns of the CPUs by heat");
    default:
      return "";
  }
}

std::string sufferer(const MachineSeries& s) {
  return s.object == "host" ? tr("the host") : tr("control group {}", s.object);
}

}  // namespace

std::vector<MachineSpell> telling_spells(const MachineSeries& series) {
  std::vector<MachineSpell> out = series.spells;
  if (unit_of(series.fact) == MachineUnit::time) {
    std::erase_if(out, [](const MachineSpell& s) {
      return static_cast<double>(s.end_wall_ns) - static_cast<double>(s.begin_wall_ns) < kLeastSpellS * 1e9;
    });
  }
  return out;
}

std::string machine_words(const MachineSeries& s, double amount) {
  const double percent = std::clamp(amount, 0.0, 1.0) * 100;
  const std::string detail = s.detail.empty() ? std::string() : tr(" ({})", s.detail);
  switch (s.fact) {
    case MachineFact::cpu_pressure:
      return tr("threads of {} waited for a CPU for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::memory_pressure:
      return tr("all threads of {} waited for memory for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::io_pressure:
      return tr("all threads of {} waited for a disk for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::interrupts:
      return tr("{} handled interrupts for {:.0f} % of the time{}", s.object, percent, detail);
    case MachineFact::stolen:
      return tr("the hypervisor took {:.0f} % of the CPUs' time", percent);
    case MachineFact::storage_wait:
      return tr("rank {} was in calls to the file system for {:.0f} % of the time{}", s.rank, percent,
                detail);
    case MachineFact::space:
      return tr("{} is {:.0f} % full{}", s.object, percent, detail);
    case MachineFact::inodes:
      return tr("{} has used {:.0f} % of its inodes{}", s.object, percent, detail);
    case MachineFact::pcie_narrow:
      return tr("{} uses fewer PCIe lanes than it could{}", s.object, detail);
    case MachineFact::pcie_slow:
      return tr("{} uses a lower PCIe speed than it could{}", s.object, detail);
    case MachineFact::port_down:
      return tr("the InfiniBand port {} is down{}", s.object, detail);
    case MachineFact::mount_silent:
      return tr("the file system {} does not answer", s.detail.empty() ? s.object : s.detail);
    case MachineFact::cpu_limited:
      return tr("the frequency of {} is limited{}", s.object, detail);
    default:
      return tr("{}, {}: {:.0f}", s.object, tr(events_word(s.fact)), amount);
  }
}

std::string on_host(const model::RunManifest& run, size_t node) {
  return run.nodes.size() > 1 ? tr("host {}: ", base::sanitize(host_of(run, node))) : std::string();
}

double seconds_in(const model::RunManifest& run, int64_t wall_ns) {
  // As numbers that cannot overflow: a damaged file may have any times.
  return (static_cast<double>(wall_ns) - static_cast<double>(run.started_wall_ns)) / 1e9;
}

double tcp_loss(const model::MachineHistory& history) {
  double again = 0;
  double sent = 0;
  for (const MachineSeries& s : history.series) {
    again += s.fact == MachineFact::tcp_retransmissions ? s.last - s.first : 0;
    sent += s.fact == MachineFact::tcp_segments ? s.last - s.first : 0;
  }
  const double share = sent > 0 ? again / sent : 0;
  return again >= kLeastRetransmitted && share >= kLeastLoss ? share : 0;
}

}  // namespace xpurun::report
