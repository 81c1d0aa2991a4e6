// GpuInventory: what the GPUs of a node are and how they are connected, by NVML: a part of gpu-health.json.
// A value that the driver or the GPU does not provide is negative or empty.
#pragma once

#include "common/base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kGpuInventorySchema = "xpurun.gpu-inventory/1";

struct GpuUnit {
  int index = -1;  // NVML's
  std::string uuid;
  std::string name;
  std::string serial;
  std::string pci;  // "0000:3b:00.0", as the kernel writes it
  double power_limit_w = -1;
  double power_default_w = -1;
  int sm_clock_max_mhz = -1;
  int pcie_width = -1;
  int pcie_width_max = -1;  // of GPU and slot
  int pcie_generation_max = -1;
  int nvlinks = -1;      // that are up; negative: the GPU has none
  int persistence = -1;  // 1: the driver stays loaded without a user; 0: not
  int mig = -1;
  int ecc = -1;
  int temperature_most_c = -1;  // of the readings
  int64_t ecc_corrected_ever = -1;
  int64_t ecc_uncorrected_ever = -1;
  int64_t rows_corrected = -1;  // rows that were remapped, over the GPU's life
  int64_t rows_uncorrected = -1;
  bool operator==(const GpuUnit&) const = default;
};

// Between two GPUs. `path` in the words of `nvidia-smi topo`: NV18, PIX, PXB, PHB, NODE, SYS.
struct GpuPath {
  int from = -1;
  int to = -1;
  std::string path;
  bool operator==(const GpuPath&) const = default;
};

struct GpuInventory {
  std::vector<GpuUnit> units;
  std::vector<GpuPath> paths;
  bool operator==(const GpuInventory&) const = default;
};

nlohmann::ordered_json to_json(const GpuInventory& inventory);
base::Result<GpuInventory> gpu_inventory_from_json(const nlohmann::json& j);

// "GPU 3"; of units without an index "GPU".
std::string gpu_object(int index);
// The index in "GPU 3" or "GPU 3 NVLink 5"; negative: none.
int gpu_index_of(std::string_view object);
// NVML's "00000000:3B:00.0" as the kernel writes it, "0000:3b:00.0".
std::string kernel_pci(std::string_view nvml);

}  // namespace xpurun::model
