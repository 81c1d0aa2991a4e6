// NVML through libnvidia-ml.so.1, loaded at run time: building xpurun needs neither its headers nor the
// library. If a GPU is broken, NVML's calls may block in the driver for minutes, so only helper processes may
// use this.
#pragma once

#include "common/base/result.h"
#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/gpu_state.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct GpuReading {
  model::EvidenceStatus status = model::EvidenceStatus::ok;
  std::string reason;
  model::GpuState state;
};

inline constexpr std::string_view kNvmlLibrary = "libnvidia-ml.so.1";

// All GPUs of this host that NVML lists. absent: no library or no GPU.
GpuReading read_gpus(const std::string& library = std::string(kNvmlLibrary));

// Repeated readings of what changes fast: clocks, power, temperature, utilisation, throttle reasons.
class GpuSpeeds {
 public:
  static base::Result<GpuSpeeds> open(const std::string& library = std::string(kNvmlLibrary));
  GpuSpeeds(GpuSpeeds&&) noexcept;
  GpuSpeeds& operator=(GpuSpeeds&&) noexcept;
  ~GpuSpeeds();

  // Of all GPUs, always in the same order; the other fields but `index` and `uuid` are empty, and `processes`
  // unless they are wanted.
  std::vector<model::GpuDevice> read(bool processes = false);

 private:
  struct State;
  explicit GpuSpeeds(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xpurun::launcher
