// GpuState: dumps/<n>-<why>/gpu.json, schema "xpurun.gpu/1": NVML's data about this host's GPUs at a dump. A
// value that the driver or the GPU does not provide is negative or empty.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/speed/throttle_reason.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kGpuSchema = "xpurun.gpu/1";

struct GpuProcess {
  base::Pid pid = 0;  // in the driver's pid namespace
  int64_t memory_bytes = -1;
  int sm_percent = -1;  // of the time, in the last second or so
};

// Since the driver was loaded.
struct NvLinkErrors {
  int link = -1;
  int64_t replays = -1;
  int64_t recoveries = -1;
  int64_t crc = -1;  // flit CRC errors
};

struct GpuDevice {
  int index = -1;  // NVML's index
  std::string name;
  std::string uuid;
  std::string pci;  // "0000:3B:00.0"
  int sm_clock_mhz = -1;
  int sm_clock_max_mhz = -1;
  int memory_clock_mhz = -1;
  std::vector<ThrottleReason> throttle_reasons;
  double power_w = -1;
  double power_limit_w = -1;
  int temperature_c = -1;
  int utilization_percent = -1;  // 100 while a collective spins
  // Over a moment of the dump, by NVML's GPM (Hopper and newer): 24 of 132 multiprocessors with 17 warps each
  // are 18.2 % and, of the 64 warps that each of the 132 has room for, 4.8 %.
  double sm_active_percent = -1;
  double sm_occupancy_percent = -1;
  int64_t memory_used_bytes = -1;
  int64_t memory_total_bytes = -1;
  // Memory errors since the driver was loaded.
  int64_t ecc_corrected = -1;
  int64_t ecc_uncorrected = -1;
  int64_t remapped_rows = -1;  // for uncorrectable errors, over the GPU's life
  bool remap_pending = false;  // takes effect at the next reset
  bool remap_failed = false;
  std::vector<NvLinkErrors> nvlink;  // links with errors only
  std::vector<GpuProcess> processes;
  std::string problem;  // why the device could not be read: "GPU is lost"
  size_t node = 0;      // index into RunManifest::nodes; not kept
};

struct GpuState {
  std::string driver;  // driver version
  std::vector<GpuDevice> devices;
};

nlohmann::ordered_json to_json(const GpuState& s);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<GpuState> gpu_state_from_json(const nlohmann::json& j);
base::Result<GpuState> load_gpu_state(const std::string& path);

}  // namespace xpurun::model
