// What a host used over the time of a run, as small multiples: inline SVG that needs no script; colours come
// from report.css.
#pragma once

#include "report/render/machine/use_plot.h"

#include <string>
#include <vector>

namespace xpurun::report {

// One row for the CPUs, the memory, each disk, interface and port, with the bands of the host. Empty:
// nothing was read.
std::string machine_plot(const model::HostUseHistory& use, const std::vector<MachineBand>& bands,
                         const RunAxis& axis, const StepTimes& steps);

}  // namespace xpurun::report
