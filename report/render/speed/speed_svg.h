// Pictures of the section "Speed": inline SVG that needs no script; colours come from report.css.
#pragma once

#include "common/model/run_manifest.h"
#include "common/model/timing/speed_report.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Time of a step over the number of the step, with the changes marked by lines, and the reports while the job
// ran marked by triangles: down where the job became slower, up where it was as fast as before. Empty without
// a series.
std::string step_plot(const model::SpeedReport& speed, const std::vector<model::Slowdown>& reported = {});

// Ranks over steps, by the time that a rank did not wait, compared with the median of the ranks and as a part
// of a step of `step_s`. At most a few hundred kB for any number of ranks
// and steps. Empty for a single rank.
std::string heat_picture(const model::HeatMap& heat, double step_s);

// Between ticks of an axis: 1, 2 or 5 times a power of ten, at least `least`, which is more than 0.
double round_number(double least);

inline constexpr size_t kHeatLevels = 7;
// The look of a rank that needs `share` of a step more than the median: 0 to kHeatLevels - 1.
size_t heat_level(double share);
// "up to 2 %", "more than 30 %"
std::string heat_level_text(size_t level);

}  // namespace xpurun::report
