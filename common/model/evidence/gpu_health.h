// GpuHealth: the clocks of a node's GPUs during a run, and what NVML counts about them (errors of links and
// memory, states), read every few seconds: gpu-health.json in the run directory, schema
// "xpurun.gpu-health/1". Bounded: neighbouring windows are joined when there are too many.
#pragma once

#include "common/base/result.h"
#include "common/model/evidence/gpu_inventory.h"
#include "common/model/evidence/machine.h"
#include "common/model/speed/gpu_capture.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kGpuHealthSchema = "xpurun.gpu-health/1";
inline constexpr size_t kMostNeighbours = 16;
inline constexpr std::string_view kGpuHealthFile = "gpu-health.json";

// One reading of one GPU.
struct GpuClockReading {
  std::string uuid;
  int sm_mhz = -1;  // negative: unknown
  std::vector<ThrottleReason> reasons;
  // That compute on the GPU, as the driver numbers them, and what they use of the time; not kept.
  std::vector<base::Pid> processes;
  std::vector<int> loads_percent;       // negative: unknown
  std::vector<std::string> neighbours;  // processes with load that are not of the job: "python3 (pid 7)"
};

// A process of another program that computed on the GPU.
struct GpuNeighbour {
  std::string name;
  int64_t first_wall_ns = 0;  // readings
  int64_t last_wall_ns = 0;
};

// Readings of one GPU between two moments.
struct GpuWindow {
  int64_t begin_wall_ns = 0;
  int64_t end_wall_ns = 0;
  uint64_t samples = 0;
  uint64_t clock_samples = 0;                          // that had an SM clock
  double sm_mhz_sum = 0;                               // of the clock samples
  std::map<ThrottleReason, uint64_t, ByName> reasons;  // samples with each reason
};

struct GpuHistory {
  std::string uuid;
  std::vector<GpuWindow> windows;        // in the order of time
  std::vector<GpuNeighbour> neighbours;  // the first kMostNeighbours
};

struct GpuHealth {
  std::vector<GpuHistory> gpus;
  GpuInventory inventory;
  MachineHistory counted;  // facts and use of GPUs only

  bool empty() const { return gpus.empty() && inventory.units.empty() && counted.empty(); }
  // One reading of all GPUs, `seconds` after the one before.
  void add(const std::vector<GpuClockReading>& readings, int64_t wall_ns, double seconds);
  // The readings whose windows lie between these moments, and a neighbour that was there for nearly all of
  // that time.
  std::vector<GpuClocks> clocks(int64_t from_wall_ns, int64_t until_wall_ns) const;
};

// Adds the facts and the use of the GPUs to those of their host, with the ranks that have the GPUs to
// themselves. What sysfs says about the PCIe link of a GPU that NVML knows gets the GPU's number.
void add_gpu_facts(MachineHistory& host, const GpuHealth& gpus);
// The only rank whose GPU has this address ("0000:3b:00.0").
base::Rank rank_on(const std::vector<RankPlace>& places, std::string_view pci);

nlohmann::ordered_json to_json(const GpuHealth& health);
// An error means that the content does not match the schema; load_*() also names the path.
base::Result<GpuHealth> gpu_health_from_json(const nlohmann::json& j);
base::Result<GpuHealth> load_gpu_health(const std::string& path);

}  // namespace xpurun::model
