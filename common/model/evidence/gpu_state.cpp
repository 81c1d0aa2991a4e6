#include "common/model/evidence/gpu_state.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<GpuProcess> P>
void fields(V& visit, P& p) {
  visit("pid", p.pid);
  visit("memory_bytes", p.memory_bytes);
  visit("sm_percent", p.sm_percent);
}

template <typename V, Self<NvLinkErrors> L>
void fields(V& visit, L& l) {
  visit("link", l.link);
  visit("replays", l.replays);
  visit("recoveries", l.recoveries);
  visit("crc", l.crc);
}

template <typename V, Self<GpuDevice> D>
void fields(V& visit, D& d) {
  visit("index", d.index);
  visit("name", d.name);
  visit("uuid", d.uuid);
  visit("pci", d.pci);
  visit("sm_clock_mhz", d.sm_clock_mhz);
  visit("sm_clock_max_mhz", d.sm_clock_max_mhz);
  visit("memory_clock_mhz", d.memory_clock_mhz);
  visit("throttle_reasons", d.throttle_reasons);
  visit("power_w", d.power_w);
  visit("power_limit_w", d.power_limit_w);
  visit("temperature_c", d.temperature_c);
  visit("utilization_percent", d.utilization_percent);
  visit("sm_active_percent", d.sm_active_percent);
  visit("sm_occupancy_percent", d.sm_occupancy_percent);
  visit("memory_used_bytes", d.memory_used_bytes);
  visit("memory_total_bytes", d.memory_total_bytes);
  visit("ecc_corrected", d.ecc_corrected);
  visit("ecc_uncorrected", d.ecc_uncorrected);
  visit("remapped_rows", d.remapped_rows);
  visit("remap_pending", d.remap_pending);
  visit("remap_failed", d.remap_failed);
  visit("nvlink", d.nvlink, WhenEmpty::omit);
  visit("processes", d.processes);
  visit("problem", d.problem, WhenEmpty::omit);
}

template <typename V, Self<GpuState> S>
void fields(V& visit, S& s) {
  visit("driver", s.driver);
  visit("devices", s.devices);
}

nlohmann::ordered_json to_json(const GpuState& s) {
  return write_object(kGpuSchema, s);
}

base::Result<GpuState> gpu_state_from_json(const nlohmann::json& j) {
  return read_object<GpuState>(kGpuSchema, "GPU state", j);
}

base::Result<GpuState> load_gpu_state(const std::string& path) {
  return load_object(path, gpu_state_from_json);
}

}  // namespace xpurun::model
