// The two JSON results of openEuler's sysTrace, with its names: of the detection of slow steps (is_anomaly
// ...) and of slow nodes (resultCode ...), one line each.
#pragma once

#include "common/model/evidence/machine.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/speed_report.h"

#include <string>

namespace xpurun::report {

std::string systrace_results(const model::SpeedReport& report);

// Its scheduler events (L3) as far as the facts exist: for each rank the processes that had its CPUs while
// its threads were ready to run. `dur` and `rundelay` in us: the sampled time, and the part of it in which a
// thread of the rank was ready without a CPU. One line; empty if nobody was seen.
std::string systrace_scheduler(const model::RunManifest& run, const model::MachineHistory& machine);

}  // namespace xpurun::report
