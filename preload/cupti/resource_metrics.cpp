#include "preload/cupti/resource_metrics.h"

#include "preload/cupti/sampling_abi.h"

#include <string.h>

namespace xpurun::preload::cupti {

namespace {

using wire::Resource;
using wire::SamplingProblem;

// The best first. Those with "TriageCompute" are made to be sampled together; later chips may lack them.
constexpr MetricCandidate kCandidates[] = {
    {Resource::sm, {"TPC.TriageCompute.sm__cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::sm, {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::tensor,
     {"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::tensor, {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::tensor, {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::dram, {"FBSP.TriageCompute.dramc__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::dram, {"dram__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::nvlink_rx,
     {"NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum.per_second",
      "NVLRX.TriageCompute.nvlrx__bytes_packet_response_data_user.sum.per_second"}},
    {Resource::nvlink_rx, {"nvlrx__bytes_data_user.sum.per_second", nullptr}},
    {Resource::nvlink_rx, {"nvlrx__bytes.sum.per_second", nullptr}},
    {Resource::nvlink_tx,
     {"NVLTX.TriageCompute.nvltx__bytes_packet_request_data_user.sum.per_second",
      "NVLTX.TriageCompute.nvltx__bytes_packet_response_data_user.sum.per_second"}},
    {Resource::nvlink_tx, {"nvltx__bytes_data_user.sum.per_second", nullptr}},
    {Resource::nvlink_tx, {"nvltx__bytes.sum.per_second", nullptr}},
    {Resource::pcie, {"PCI.TriageCompute.pcie__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::pcie, {"pcie__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {Resource::pcie_read, {"PCI.TriageCompute.pcie__read_bytes.sum.per_second", nullptr}},
    {Resource::pcie_read, {"pcie__read_bytes.sum.per_second", nullptr}},
    {Resource::pcie_write, {"PCI.TriageCompute.pcie__write_bytes.sum.per_second", nullptr}},
    {Resource::pcie_write, {"pcie__write_bytes.sum.per_second", nullptr}},
};

bool is_share(Resource resource) {
  return resource == Resource::sm || resource == Resource::tensor || resource == Resource::dram ||
         resource == Resource::pcie;
}

uint32_t bit_of(Resource resource) {
  return 1u << static_cast<uint32_t>(resource);
}

}  // namespace

ChosenMetrics choose_metrics(AcceptsMetrics accepts, void* context) {
  ChosenMetrics out;
  // Each candidate is tried together with the metrics that are already chosen, because all must fit into one
  // pass. A second pass would need the GPU to repeat its work.
  for (const MetricCandidate& candidate : kCandidates) {
    if ((out.mask & bit_of(candidate.resource)) != 0) {
      continue;
    }
    size_t count = out.count;
    for (const char* name : candidate.names) {
      if (name != nullptr) {
        out.names[count] = name;
        out.resources[count] = candidate.resource;
        ++count;
      }
    }
    if (accepts(context, out.names, count)) {
      out.count = count;
      out.mask |= bit_of(candidate.resource);
    }
  }
  return out;
}

double in_unit(Resource resource, double value) {
  return is_share(resource) ? value / 100 : value;
}

SamplingProblem problem_of(int result) {
  if (result == kHardwareBusy) {
    return SamplingProblem::busy;
  }
  if (result == kInsufficientPrivileges || result == kVirtualizedInsufficientPrivileges) {
    return SamplingProblem::no_permission;
  }
  const bool of_machine = result >= kCmpNotSupported && result <= kWslNotSupported;
  if (result == kNotSupported || result == kVirtualizedNotSupported || of_machine) {
    return SamplingProblem::not_supported;
  }
  return SamplingProblem::refused;
}

void metrics_text(const ChosenMetrics& chosen, Resource resource, char* out, size_t room) {
  constexpr char kBetween[] = " + ";
  size_t used = 0;
  for (size_t i = 0; i < chosen.count; ++i) {
    if (chosen.resources[i] != resource) {
      continue;
    }
    const size_t between = used == 0 ? 0 : sizeof(kBetween) - 1;
    const size_t length = strlen(chosen.names[i]);
    if (used + between + length >= room) {
      break;
    }
    memcpy(out + used, kBetween, between);
    memcpy(out + used + between, chosen.names[i], length);
    used += between + length;
  }
  out[used] = 0;
}

}  // namespace xpurun::preload::cupti
