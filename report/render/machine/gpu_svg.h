// What the GPUs of a host did over the time of a run, as small multiples: inline SVG that needs no script;
// colours come from report.css.
#pragma once

#include "common/model/evidence/machine.h"
#include "report/render/machine/use_plot.h"

#include <string>
#include <vector>

namespace xpurun::report {

// One row for each GPU: load, SM clock, temperature and power, each in the same scale for all GPUs, with the
// bands of this GPU. Empty: nothing was read.
std::string gpu_plot(const model::MachineHistory& machine, const std::vector<MachineBand>& bands,
                     const RunAxis& axis, const StepTimes& steps);

}  // namespace xpurun::report
