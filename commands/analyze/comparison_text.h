// The output of `xpurun diff` for people. Pure.
#pragma once

#include "common/model/speed/comparison.h"

#include <string>

namespace xpurun::launcher {

std::string comparison_text(const model::Comparison& comparison, size_t columns);

}  // namespace xpurun::launcher
