// NVML through libnvidia-ml.so.1, loaded at run time: building xpurun needs neither its headers nor the
// library. If a GPU is broken, NVML's calls may block in the driver for minutes, so only the evidence helper
// may use this.
#pragma once

#include "common/base/result.h"
#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/gpu_state.h"

#include <string>

namespace xpurun::launcher {

struct GpuReading {
  model::EvidenceStatus status = model::EvidenceStatus::ok;
  std::string reason;
  model::GpuState state;
};

// All GPUs of this host that NVML lists. absent: no library or no GPU.
GpuReading read_gpus(const std::string& library = "libnvidia-ml.so.1");

}  // namespace xpurun::launcher
