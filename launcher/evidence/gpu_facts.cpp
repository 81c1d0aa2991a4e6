#include "launcher/evidence/gpu_facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

using model::MachineFact;
using model::MachineReading;
using model::ThrottleReason;

namespace {

// A GPU lowers the speed of its PCIe link when it has no work.
constexpr int kBusyPercent = 50;

bool lowers_clock(ThrottleReason reason) {
  return model::is_throttling(reason) && reason != ThrottleReason::power_cap;
}

std::string reason_names(const std::vector<ThrottleReason>& reasons) {
  std::string out;
  for (const ThrottleReason reason : reasons) {
    if (lowers_clock(reason)) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", name_of(reason));
    }
  }
  return out;
}

std::string object_of(const GpuCounts& gpu) {
  return model::gpu_object(gpu.unit.index);
}

}  // namespace

bool is_up_elsewhere(const std::vector<GpuCounts>& gpus, int index, int link) {
  size_t others = 0;
  size_t up = 0;
  for (const GpuCounts& gpu : gpus) {
    if (gpu.unit.index == index || !gpu.problem.empty()) {
      continue;
    }
    ++others;
    up += std::any_of(gpu.links.begin(), gpu.links.end(),
                      [&](const NvLinkCounts& l) { return l.link == link && l.is_up; })
              ? 1
              : 0;
  }
  return 2 * up > others;
}

void FactsOfGpus::add_count(MachineFact fact, const std::string& object, int64_t value, MachineReading& out) {
  if (value < 0) {
    return;
  }
  const Key key(fact, object);
  const int64_t first = first_.try_emplace(key, value).first->second;
  if (value != first) {
    told_.insert(key);
  }
  if (told_.count(key) > 0 || fact == MachineFact::ecc_uncorrected) {
    out.values.push_back({.fact = fact,
                          .object = object,
                          .value = static_cast<double>(value),
                          .detail = {},
                          .before = static_cast<double>(first)});
  }
}

void FactsOfGpus::add_state(MachineFact fact, const std::string& object, bool holds, std::string detail,
                            MachineReading& out) {
  const Key key(fact, object);
  if (holds) {
    told_.insert(key);
  }
  if (told_.count(key) > 0) {
    out.values.push_back(
        {.fact = fact, .object = object, .value = holds ? 1.0 : 0.0, .detail = std::move(detail)});
  }
}

void FactsOfGpus::add_gpu(const GpuCounts& gpu, MachineReading& out) {
  const std::string object = object_of(gpu);
  add_state(MachineFact::gpu_lost, object, !gpu.problem.empty(), gpu.problem, out);
  add_count(MachineFact::gpu_pcie_replays, object, gpu.pcie_replays, out);
  add_count(MachineFact::ecc_corrected, object, gpu.ecc_corrected, out);
  add_count(MachineFact::ecc_uncorrected, object, gpu.ecc_uncorrected, out);
  const model::GpuUnit& unit = gpu.unit;
  if (unit.rows_corrected >= 0 && unit.rows_uncorrected >= 0) {
    add_count(MachineFact::rows_remapped, object, unit.rows_corrected + unit.rows_uncorrected, out);
  }
  add_count(MachineFact::pages_retired, object, gpu.pages_retired, out);
  add_state(MachineFact::remap_pending, object, gpu.remap_pending, {}, out);
  add_state(MachineFact::remap_failed, object, gpu.remap_failed, {}, out);
  const std::string reasons = reason_names(gpu.reasons);
  add_state(MachineFact::gpu_slowed, object, !reasons.empty(), reasons, out);
  add_state(MachineFact::pcie_narrow, object, unit.pcie_width > 0 && unit.pcie_width < unit.pcie_width_max,
            fmt::format("x{} of x{}", unit.pcie_width, unit.pcie_width_max), out);
  const bool slow = gpu.utilization_percent >= kBusyPercent && gpu.pcie_generation > 0 &&
                    gpu.pcie_generation < unit.pcie_generation_max;
  add_state(MachineFact::pcie_slow, object, slow,
            fmt::format("generation {} of {}", gpu.pcie_generation, unit.pcie_generation_max), out);
  for (const int xid : gpu.xids) {
    ++xids_[Key(MachineFact::xid, fmt::format("{} Xid {}", object, xid))];
  }
}

void FactsOfGpus::add_links(const std::vector<GpuCounts>& gpus, const GpuCounts& gpu, MachineReading& out) {
  for (const NvLinkCounts& link : gpu.links) {
    const std::string object = fmt::format("{} NVLink {}", object_of(gpu), link.link);
    if (link.is_up) {
      were_up_.insert(object);
    }
    const bool down =
        !link.is_up && (were_up_.count(object) > 0 || is_up_elsewhere(gpus, gpu.unit.index, link.link));
    add_state(MachineFact::nvlink_down, object, down, {}, out);
    add_count(MachineFact::nvlink_recoveries, object, link.recoveries, out);
    add_count(MachineFact::nvlink_replays, object, link.replays, out);
    add_count(MachineFact::nvlink_crc, object, link.crc, out);
  }
}

MachineReading FactsOfGpus::add(const std::vector<GpuCounts>& gpus) {
  MachineReading out;
  for (const GpuCounts& gpu : gpus) {
    add_gpu(gpu, out);
    if (gpu.problem.empty()) {
      add_links(gpus, gpu, out);
    }
  }
  for (const auto& [key, count] : xids_) {
    out.values.push_back({.fact = key.first,
                          .object = key.second,
                          .value = static_cast<double>(count),
                          .detail = {},
                          .before = 0});
  }
  return out;
}

}  // namespace xpurun::launcher
