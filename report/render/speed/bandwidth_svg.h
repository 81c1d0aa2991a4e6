// Bandwidth of collectives against their size: inline SVG that needs no script; colours come from report.css.
#pragma once

#include "common/model/speed/operations.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Points with both axes logarithmic: of each row from the last arrival on, and small ones of each rank by its
// own time. Empty for fewer than two rows with a known bandwidth.
std::string bandwidth_plot(const std::vector<model::CollectiveRow>& rows,
                           const std::vector<model::DurationRow>& durations = {});

}  // namespace xpurun::report
