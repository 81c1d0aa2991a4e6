// The page of `xpurun diff --format html`: one file that makes no request, complete without scripts. Fills
// templates/comparison.mustache.
#pragma once

#include "common/model/speed/comparison.h"

#include <string>

namespace xpurun::report {

std::string comparison_page(const model::Comparison& comparison);

// Inline SVG: a bar for each metric that differs, and for the step. Empty if there is none.
std::string effect_plot(const model::Comparison& comparison);

}  // namespace xpurun::report
