// Durations of work on a GPU, in words. Pure.
#pragma once

#include <string>

namespace xpurun::report {

// "12.5 us", "3.20 ms"
std::string work_duration(double seconds);

}  // namespace xpurun::report
