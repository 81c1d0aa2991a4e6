// The variables of xpu_timer, for jobs that still set them. Pure.
#pragma once

#include "launcher/options/settings.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Sets the options of `run` for which XPU_TIMER_* variables stand, unless they are set already. Returns a
// warning for every other such variable: that it is not known, that its value is wrong, or what replaces it.
std::vector<std::string> add_xpu_timer_environment(Settings& settings,
                                                   const std::map<std::string, std::string>& env);

}  // namespace xpurun::launcher
