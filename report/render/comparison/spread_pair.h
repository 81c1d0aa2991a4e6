// The values of A and of B in one picture: two boxes for each metric.
#pragma once

#include "common/model/speed/comparison.h"

#include <string>

namespace xpurun::report {

// An SVG element for the metrics that differ and the step; empty if none has values.
std::string spread_pairs(const model::Comparison& comparison);

}  // namespace xpurun::report
