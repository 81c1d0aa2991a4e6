#include "report/diagnosis/rules/surroundings.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rules/gpu_errors.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/waits/gpu_counters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

using base::tr;
using model::GpuDevice;
using model::KernelEvent;
using model::KernelEventKind;
using model::ThrottleReason;

namespace {

constexpr size_t kMostKernelLines = 4;
constexpr size_t kMostGpuLines = 4;
constexpr double kFullMemory = 0.99;
constexpr double kClocksDifferS = 2;  // the kernel's log has a clock of its own

std::string process_words(const KernelEvent& e) {
  const std::string name = e.comm.empty() ? tr("a process") : base::sanitize(e.comm);
  return e.pid > 0 ? tr("{} (pid {})", name, e.pid) : name;
}

bool throttled_by(const GpuDevice& d, ThrottleReason reason) {
  return std::find(d.throttle_reasons.begin(), d.throttle_reasons.end(), reason) != d.throttle_reasons.end();
}

std::string clock_words(const GpuDevice& d) {
  return d.sm_clock_mhz >= 0 && d.sm_clock_max_mhz > 0
             ? tr(", {} of {} MHz", d.sm_clock_mhz, d.sm_clock_max_mhz)
             : std::string();
}

std::string gib(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 30));
}

// The problems of one GPU, most important first. A power cap and idling are normal.
std::vector<std::string> complaints(const GpuDevice& d) {
  std::vector<std::string> out;
  if (!d.problem.empty()) {
    out.push_back(base::sanitize(d.problem));
  }
  if (d.ecc_uncorrected > 0) {
    out.push_back(tr("{} uncorrectable memory errors since the driver was loaded", d.ecc_uncorrected));
  }
  if (d.remap_failed) {
    out.push_back(tr("broken memory that could not be replaced"));
  } else if (d.remap_pending) {
    out.push_back(tr("broken memory that is replaced at the next reset"));
  }
  if (throttled_by(d, ThrottleReason::thermal) || throttled_by(d, ThrottleReason::hardware_thermal)) {
    out.push_back(tr("slowed down by heat ({} °C{})", d.temperature_c, clock_words(d)));
  } else if (throttled_by(d, ThrottleReason::power_brake)) {
    out.push_back(tr("slowed down by the host's power supply{}", clock_words(d)));
  } else if (throttled_by(d, ThrottleReason::hardware_slowdown)) {
    out.push_back(tr("slowed down by the hardware{}", clock_words(d)));
  }
  if (d.memory_total_bytes > 0 && d.memory_used_bytes >= 0 &&
      static_cast<double>(d.memory_used_bytes) >= kFullMemory * static_cast<double>(d.memory_total_bytes)) {
    out.push_back(tr("memory is full ({} of {} GiB)", gib(d.memory_used_bytes), gib(d.memory_total_bytes)));
  }
  for (const model::NvLinkErrors& link : d.nvlink) {
    if (link.recoveries > 0) {
      out.push_back(tr("NVLink {} had to recover {} times", link.link, link.recoveries));
    }
  }
  return out;
}

constexpr size_t kMostMachineLines = 4;
constexpr double kBeforeStallS = 60;

// What says by itself that a link or a file system is broken or full.
bool is_broken(model::MachineFact fact) {
  using model::MachineFact;
  switch (fact) {
    case MachineFact::link_downed:
    case MachineFact::link_recoveries:
    case MachineFact::receive_errors:
    case MachineFact::carrier_changes:
    case MachineFact::pcie_uncorrected:
    case MachineFact::memory_pressure:
    case MachineFact::no_cpu:
    case MachineFact::storage_wait:
    case MachineFact::space:
    case MachineFact::inodes:
    case MachineFact::port_down:
    case MachineFact::mount_silent:
    case MachineFact::nvlink_recoveries:
    case MachineFact::nvlink_down:
    case MachineFact::ecc_uncorrected:
    case MachineFact::xid:
    case MachineFact::gpu_lost:
    case MachineFact::oom_kills:
      return true;
    default:
      return false;
  }
}

// At the dump, the rank's main thread slept and wanted no CPU: that it had none before is not why it stands.
bool wants_no_cpu(const Scene& scene, base::Rank rank) {
  constexpr double kLittle = 0.1;
  if (!scene.facts.dump) {
    return false;
  }
  const auto& seen = scene.facts.dump->ranks;
  const auto found =
      std::find_if(seen.begin(), seen.end(), [&](const model::RankObservation& o) { return o.rank == rank; });
  return found != seen.end() && found->alive && found->state == 'S' && found->main_cpu_share < kLittle &&
         found->main_queue_share < kLittle;
}

// Around the last progress: what had ended long before, or began after, is no cause.
void add_machine(const Scene& scene, std::vector<std::string>& out) {
  const model::RunManifest& run = scene.facts.run;
  const model::Stall* stall = stall_that_matters(run);
  const double from_s = stall != nullptr && stall->since_s >= 0 ? stall->since_s - kBeforeStallS
                        : scene.facts.dump                      ? scene.facts.dump->at_s - kBeforeStallS
                                                                : 0;
  std::vector<std::pair<double, std::string>> lines;
  // The kernel log has the same Xids, with their processes.
  const bool logged = std::any_of(scene.facts.kernel.events.begin(), scene.facts.kernel.events.end(),
                                  [](const KernelEvent& e) { return e.kind == KernelEventKind::xid; });
  for (size_t node = 0; node < scene.facts.machines.size(); ++node) {
    const model::MachineHistory& machine = scene.facts.machines[node];
    for (const model::MachineSeries& s : machine.series) {
      if (s.fact == model::MachineFact::xid && logged) {
        continue;
      }
      for (const model::MachineSpell& spell : telling_spells(machine, s)) {
        const double at_s = std::max(0.0, seconds_in(run, spell.begin_wall_ns));
        const double end_s = seconds_in(run, spell.end_wall_ns);
        // A start-up, in which all ranks import, explains no later stall.
        const bool matters =
            s.fact != model::MachineFact::no_cpu ||
            (stall != nullptr && end_s >= std::max(stall->since_s, 0.0) && !wants_no_cpu(scene, s.rank));
        if (is_broken(s.fact) && matters && end_s >= from_s) {
          lines.emplace_back(
              at_s, on_host(scene.facts.run, node) +
                        tr("{}: {}", moment_words(run, at_s), machine_words(machine, s, spell.amount)));
        }
      }
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < std::min(lines.size(), kMostMachineLines); ++i) {
    out.push_back(std::move(lines[i].second));
  }
}

}  // namespace

bool is_of_another_job(const model::RunManifest& run, const KernelEvent& e) {
  return e.kind == KernelEventKind::oom_kill && e.memory_limit && e.pid > 0 &&
         (e.host_pid || e.at_s < kClocksDifferS) &&
         std::none_of(run.processes.begin(), run.processes.end(),
                      [&](const model::ProcessRecord& p) { return p.pid == e.pid && p.node == e.node; });
}

std::string kernel_words(const KernelEvent& e) {
  switch (e.kind) {
    case KernelEventKind::xid:
      return tr("the kernel reported {} of GPU {}{}", xid_words(e), base::sanitize(e.pci),
                e.pid > 0 ? tr(", in {}", process_words(e)) : "");
    case KernelEventKind::oom_kill:
      return e.memory_limit ? tr("the kernel killed {}: the memory limit of its control group was reached",
                                 process_words(e))
                            : tr("the kernel killed {}: the host was out of memory", process_words(e));
    case KernelEventKind::hung_task:
      break;
  }
  return tr("the kernel reported that {} has been in uninterruptible sleep for minutes", process_words(e));
}

void add_surroundings(const Scene& scene, std::vector<std::string>& out) {
  auto events = scene.facts.kernel.events;
  std::erase_if(events, [&](const KernelEvent& e) { return is_of_another_job(scene.facts.run, e); });
  for (size_t i = 0; i < std::min(events.size(), kMostKernelLines); ++i) {
    out.push_back(on_host(scene.facts.run, events[i].node) +
                  tr("{}: {}", moment_words(scene.facts.run, events[i].at_s), kernel_words(events[i])));
  }
  if (events.size() > kMostKernelLines) {
    out.push_back(tr("and {} later events of the kernel: see kernel.json", events.size() - kMostKernelLines));
  }
  size_t shown = 0;
  const bool own_kernel = std::any_of(scene.ranks.begin(), scene.ranks.end(), [](const RankView& v) {
    return v.state == RankState::stuck && v.wait && v.wait->kind == WaitKind::kernel;
  });
  for (const GpuDevice& d : scene.facts.gpus.devices) {
    auto wrong = complaints(d);
    const model::RankSet ranks = own_kernel ? scene.ranks_on(d) : model::RankSet();
    if (!ranks.empty() && d.sm_active_percent >= 0) {
      const double warps = std::round(warps_each(d));
      wrong.push_back(tr("that of {}; {:.1f} % of its multiprocessors work, with {:.0f} {} each",
                         scene.names(ranks), d.sm_active_percent, warps,
                         pick({"warp", "warps"}, static_cast<size_t>(warps))));
    }
    if (!wrong.empty() && shown++ < kMostGpuLines) {
      out.push_back(tr("{}GPU {}{}: {}", on_host(scene.facts.run, d.node), d.index,
                       d.name.empty() ? "" : fmt::format(" ({})", d.name), joined_clauses(wrong)));
    }
  }
  if (shown > kMostGpuLines) {
    out.push_back(tr("and {} more GPUs with problems: see gpu.json", shown - kMostGpuLines));
  }
  add_machine(scene, out);
}

}  // namespace xpurun::report
