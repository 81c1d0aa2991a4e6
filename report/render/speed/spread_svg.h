// How durations are spread, by rank: inline SVG that needs no script; colours come from report.css.
#pragma once

#include "common/model/speed/operations.h"

#include <string>
#include <vector>

namespace xpurun::report {

// For each row a box a rank: from the 25th to the 75th percentile, with the median, and a line from the 5th
// to the 95th. Empty if there are no rows.
std::string spread_plot(const std::vector<model::DurationRow>& rows);

}  // namespace xpurun::report
