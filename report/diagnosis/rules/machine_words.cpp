#include "report/diagnosis/rules/machine_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/evidence/gpu_inventory.h"
#include "report/diagnosis/rules/gpu_errors.h"

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
// Of the time of a rank's CPUs: every host has some other process.
constexpr double kLeastIntrusion = 0.2;
constexpr std::string_view kHost = "host";

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
    case MachineFact::port_discards:
      return later("packets for which the port had no room");
    case MachineFact::nvlink_recoveries:
      return later("recoveries of the link");
    case MachineFact::nvlink_replays:
      return later("packets that were sent again");
    case MachineFact::nvlink_crc:
      return later("checksum errors");
    case MachineFact::gpu_pcie_replays:
      return later("PCIe packets that were sent again");
    case MachineFact::ecc_corrected:
      return later("corrected memory errors");
    case MachineFact::ecc_uncorrected:
      return later("uncorrected memory errors");
    case MachineFact::rows_remapped:
      return later("damaged memory rows that were replaced");
    case MachineFact::pages_retired:
      return later("memory pages that were retired");
    default:
      return "";
  }
}

std::string sufferer(const MachineSeries& s) {
  return s.object == kHost ? tr("the host") : tr("control group {}", s.object);
}

// "GPU 3 NVLink 5 (rank 3)"
std::string object_words(const MachineSeries& s) {
  return s.rank >= 0 && model::gpu_index_of(s.object) >= 0 ? tr("{} (rank {})", s.object, s.rank) : s.object;
}

// Of "GPU 4 Xid 79".
std::string driver_words(const MachineSeries& s, double amount) {
  model::KernelEvent event;
  event.xid = static_cast<int>(
      base::parse_int(std::string_view(s.object).substr(s.object.rfind(' ') + 1)).value_or(0) & 0xffff);
  const std::string gpu = model::gpu_object(model::gpu_index_of(s.object));
  const std::string whose = s.rank >= 0 ? tr("{} (rank {})", gpu, s.rank) : gpu;
  return amount < 2 ? tr("the driver reported {} of {}", xid_words(event), whose)
                    : tr("the driver reported {} of {}, {:.0f} times", xid_words(event), whose, amount);
}

}  // namespace

bool is_stranger(const model::Intruder& intruder) {
  return intruder.relation == model::CpuRelation::stranger || intruder.relation == model::CpuRelation::unseen;
}

// By CPU time: a process that was there once with a large share matters less than one that stays.
const model::Intruder* main_intruder(const model::MachineHistory& history, base::Rank rank) {
  const model::Intruder* most = nullptr;
  const model::Intruder* stranger = nullptr;
  for (const model::Intruder& one : history.intruders) {
    if (one.rank != rank) {
      continue;
    }
    most = most == nullptr || one.cpu_s > most->cpu_s ? &one : most;
    if (is_stranger(one) && one.share() >= kLeastIntrusion) {
      stranger = stranger == nullptr || one.cpu_s > stranger->cpu_s ? &one : stranger;
    }
  }
  return stranger != nullptr ? stranger : most;
}

namespace {

// "/docker/9f3c5a1e0b7d" for the 64 digits of a container's name: as many as the tools of containers show.
std::string brief_group(const std::string& group) {
  constexpr size_t kShown = 12;
  constexpr size_t kLeastDigits = 32;
  std::string out;
  size_t digits = 0;
  for (const char c : base::sanitize(group)) {
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    digits = digit ? digits + 1 : 0;
    out += c;
    if (digits == kLeastDigits) {
      out.resize(out.size() - kLeastDigits + kShown);
    } else if (digits > kLeastDigits) {
      out.pop_back();
    }
  }
  return out;
}

}  // namespace

std::string intruder_words(const model::Intruder& i) {
  const std::string command = i.command.empty() ? tr("a process") : base::sanitize(i.command);
  const std::string who = i.processes > 1 ? tr("{} processes", i.processes) : tr("pid {}", i.pid);
  switch (i.relation) {
    case model::CpuRelation::stranger:
      return i.group.empty() ? tr("{} ({})", command, who)
                             : tr("{} ({}, {})", command, who, brief_group(i.group));
    case model::CpuRelation::other_rank:
      return tr("rank {} ({} {})", i.owner, command, who);
    case model::CpuRelation::own:
      return tr("its own {} ({})", command, who);
    case model::CpuRelation::job:
      return tr("{} ({}) of this job", command, who);
    case model::CpuRelation::unseen:
      break;
  }
  return tr("processes outside of this container");
}

std::vector<MachineSpell> telling_spells(const model::MachineHistory& history, const MachineSeries& series) {
  // On a host whose CPUs are all in use, as they should be, some thread waits most of the time.
  if (series.fact == MachineFact::cpu_pressure && series.object == kHost) {
    return {};
  }
  // The cache of files fills any limit, and each program reads its own code from a disk.
  if (series.fact == MachineFact::memory_limit || series.fact == MachineFact::rank_page_faults) {
    return {};
  }
  if (series.fact == MachineFact::no_cpu) {
    const model::Intruder* intruder = main_intruder(history, series.rank);
    if (intruder == nullptr || !is_stranger(*intruder) || intruder->share() < kLeastIntrusion) {
      return {};
    }
  }
  return lasting_spells(series);
}

std::vector<MachineSpell> lasting_spells(const MachineSeries& series) {
  std::vector<MachineSpell> out = series.spells;
  // A GPU at its limit of heat lowers its clock for a moment now and then, and the speed of its link rises a
  // moment after the work has begun.
  const bool of_gpu = model::gpu_index_of(series.object) >= 0;
  const bool passing =
      of_gpu && (series.fact == MachineFact::gpu_slowed || series.fact == MachineFact::pcie_slow);
  if (unit_of(series.fact) == MachineUnit::time || passing) {
    std::erase_if(out, [](const MachineSpell& s) {
      return static_cast<double>(s.end_wall_ns) - static_cast<double>(s.begin_wall_ns) < kLeastSpellS * 1e9;
    });
  }
  return out;
}

namespace {

std::string no_cpu_words(const model::MachineHistory& history, base::Rank rank, double percent) {
  const std::string ready =
      tr("rank {} was ready to run and had no CPU for {:.0f} % of the time", rank, percent);
  const model::Intruder* intruder = main_intruder(history, rank);
  return intruder == nullptr ? ready
                             : ready + tr("; {} had {:.0f} % of its CPUs", intruder_words(*intruder),
                                          std::min(100 * intruder->share(), 100.0));
}

}  // namespace

std::string machine_words(const model::MachineHistory& history, const MachineSeries& s, double amount) {
  const double percent = std::clamp(amount, 0.0, 1.0) * 100;
  const std::string detail = s.detail.empty() ? std::string() : tr(" ({})", s.detail);
  switch (s.fact) {
    case MachineFact::cpu_pressure:
      return tr("all threads of {} waited for a CPU for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::memory_pressure:
      return tr("all threads of {} waited for memory for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::io_pressure:
      return tr("all threads of {} waited for a disk for {:.0f} % of the time", sufferer(s), percent);
    case MachineFact::interrupts:
      return tr("{} handled interrupts for {:.0f} % of the time{}", s.object, percent, detail);
    case MachineFact::stolen:
      return tr("the hypervisor took {:.0f} % of the CPUs' time", percent);
    case MachineFact::throttled:
      return tr("the CPU limit of its control groups kept rank {} from running for {:.0f} % of the time",
                s.rank, percent);
    case MachineFact::no_cpu:
      return no_cpu_words(history, s.rank, percent);
    case MachineFact::storage_wait:
      return tr("rank {} was in calls to the file system for {:.0f} % of the time{}", s.rank, percent,
                detail);
    case MachineFact::space:
      return tr("{} is {:.0f} % full{}", s.object, percent, detail);
    case MachineFact::inodes:
      return tr("{} has used {:.0f} % of its inodes{}", s.object, percent, detail);
    case MachineFact::pcie_narrow:
      return tr("{} uses fewer PCIe lanes than it could{}", object_words(s), detail);
    case MachineFact::pcie_slow:
      return tr("{} uses a lower PCIe speed than it could{}", object_words(s), detail);
    case MachineFact::port_down:
      return tr("the InfiniBand port {} is down{}", s.object, detail);
    case MachineFact::mount_silent:
      return tr("the file system {} does not answer", s.detail.empty() ? s.object : s.detail);
    case MachineFact::cpu_limited:
      return tr("the frequency of {} is limited{}", s.object, detail);
    case MachineFact::paused:
      return tr("the switch made {} pause for {:.0f} % of the time{}", s.object, percent, detail);
    case MachineFact::xid:
      return driver_words(s, amount);
    case MachineFact::nvlink_down:
      return tr("{} is down", object_words(s));
    case MachineFact::remap_pending:
      return tr("{} has damaged memory that waits for a reset to be replaced", object_words(s));
    case MachineFact::remap_failed:
      return tr("{} has damaged memory and no spare rows left", object_words(s));
    case MachineFact::gpu_slowed:
      return tr("{} lowered its clock{}", object_words(s), detail);
    case MachineFact::gpu_lost:
      return tr("{} does not answer{}", object_words(s), detail);
    case MachineFact::oom_kills:
      return amount < 2
                 ? tr("the kernel killed a process of the control group {} for lack of memory", s.object)
                 : tr("the kernel killed {:.0f} processes of the control group {} for lack of memory", amount,
                      s.object);
    default:
      return tr("{}, {}: {:.0f}", object_words(s), tr(events_word(s.fact)), amount);
  }
}

std::string no_cpu_of_all_words(const model::MachineHistory& history, base::Rank rank, double amount) {
  const std::string ready = tr("all ranks were ready to run and had no CPU for up to {:.0f} % of the time",
                               std::clamp(amount, 0.0, 1.0) * 100);
  const model::Intruder* intruder = main_intruder(history, rank);
  return intruder == nullptr
             ? ready
             : ready + tr("; {} had {:.0f} % of the CPUs of rank {}", intruder_words(*intruder),
                          std::min(100 * intruder->share(), 100.0), rank);
}

std::string on_host(const model::RunManifest& run, size_t node) {
  return run.nodes.size() > 1 ? tr("host {}: ", base::sanitize(host_of(run, node))) : std::string();
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
