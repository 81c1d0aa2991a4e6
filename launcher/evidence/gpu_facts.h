// From what NVML counts about the GPUs of a host to facts (model::MachineFact) and their inventory. Pure.
#pragma once

#include "common/model/evidence/gpu_inventory.h"
#include "common/model/evidence/machine.h"
#include "common/model/speed/throttle_reason.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

// Negative: not known.
struct NvLinkCounts {
  int link = -1;
  bool is_up = false;
  int64_t replays = -1;
  int64_t recoveries = -1;
  int64_t crc = -1;
};

// One reading of one GPU, as NVML gives the values.
struct GpuCounts {
  model::GpuUnit unit;
  std::vector<NvLinkCounts> links;  // all that the GPU has
  int64_t pcie_replays = -1;
  int pcie_generation = -1;
  int64_t ecc_corrected = -1;  // since the last reset
  int64_t ecc_uncorrected = -1;
  int64_t pages_retired = -1;
  bool remap_pending = false;
  bool remap_failed = false;
  int temperature_c = -1;
  int utilization_percent = -1;
  std::vector<model::ThrottleReason> reasons;
  std::vector<int> xids;  // since the reading before
  std::string problem;    // "GPU is lost"
};

// Readings of the same GPUs, one after the other.
class FactsOfGpus {
 public:
  model::MachineReading add(const std::vector<GpuCounts>& gpus);

 private:
  using Key = std::pair<model::MachineFact, std::string>;

  void add_gpu(const GpuCounts& gpu, model::MachineReading& out);
  void add_links(const std::vector<GpuCounts>& gpus, const GpuCounts& gpu, model::MachineReading& out);
  void add_count(model::MachineFact fact, const std::string& object, int64_t value,
                 model::MachineReading& out);
  // Told from the first time on that the state holds.
  void add_state(model::MachineFact fact, const std::string& object, bool holds, std::string detail,
                 model::MachineReading& out);

  std::map<Key, int64_t> first_;   // of counters
  std::set<Key> told_;             // counters that have grown, states that have held
  std::set<std::string> were_up_;  // links
  std::map<Key, int64_t> xids_;    // so far
};

// Which of these GPUs count as up at this link, for the same link of another one: more than half.
bool is_up_elsewhere(const std::vector<GpuCounts>& gpus, int index, int link);

}  // namespace xpurun::launcher
