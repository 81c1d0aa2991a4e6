// What NVML says about the GPUs of this host, as findings: those of a report, of one moment.
#pragma once

#include "common/model/evidence/gpu_health.h"
#include "report/run/run_report.h"

#include <vector>

namespace xpurun::launcher {

// Findings about errors and states of the GPUs, and about GPUs that differ from the others. Pure.
std::vector<report::Finding> findings_of(const model::GpuHealth& health);

}  // namespace xpurun::launcher
