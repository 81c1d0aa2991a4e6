// The use of each resource of a GPU by its hardware counters, as mean and spread over time, and the quality
// of the sampling. Part of GpuCapture.
#pragma once

#include "common/model/names.h"
#include "common/wire/capture.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

template <>
inline constexpr std::array<std::string_view, wire::kResources> kNames<wire::Resource> = {
    "sm", "tensor", "dram", "nvlink_rx", "nvlink_tx", "pcie", "pcie_read", "pcie_write"};

// Otherwise the unit is bytes a second.
constexpr bool is_share(wire::Resource resource) {
  return resource <= wire::Resource::dram || resource == wire::Resource::pcie;
}

// For people.
constexpr std::string_view title_of(wire::Resource resource) {
  constexpr std::array<std::string_view, wire::kResources> kTitles = {
      "SM active",   "tensor pipe", "DRAM",      "NVLink received",
      "NVLink sent", "PCIe",        "PCIe read", "PCIe written"};
  return kTitles[static_cast<size_t>(resource)];
}

struct ResourceUse {
  wire::Resource resource = wire::Resource::sm;
  double mean = -1;    // share of the peak, 0 to 1, or bytes a second; negative: unknown
  double spread = -1;  // standard deviation of the samples
  std::string metric;  // CUPTI's name; only in ResourceSampling
};

enum class SamplingStatus {
  none,  // not tried: no capture in this rank, or an older xpurun
  complete,
  overflow,  // the hardware's buffer was full: some time has no samples
  off,
  no_functions,
  no_permission,
  busy,
  not_supported,
  no_metrics,
  refused,
  failed,  // no memory, CUPTI's clock changed, no file
};
template <>
inline constexpr std::array<std::string_view, 11> kNames<SamplingStatus> = {
    "none", "complete",      "overflow",   "off",     "no_functions", "no_permission",
    "busy", "not_supported", "no_metrics", "refused", "failed"};

// Of one rank. Times are seconds.
struct ResourceSampling {
  SamplingStatus status = SamplingStatus::none;
  std::string reason;         // of `refused` and `failed`, and of samples that end early
  double asked_s = 0;         // the requested interval
  double interval_s = 0;      // of the samples; 0: there is none
  int64_t begin_mono_ns = 0;  // of the first sample
  double seconds = 0;         // from the first sample to the last one
  uint64_t samples = 0;
  uint64_t lost = 0;       // samples without a known begin or without room
  uint64_t overflows = 0;  // times that the hardware's buffer was found full
  double setup_s = 0;      // before the capture
  double handling_s = 0;   // time of the rank's thread to take samples
  double stop_s = 0;       // after the capture
  std::string file;        // in the directory of the capture; empty: none
  std::vector<ResourceUse> resources;
  bool empty() const { return status == SamplingStatus::none; }
};

}  // namespace xpurun::model
