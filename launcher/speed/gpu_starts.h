// Timed work of a rank's GPU, as the step clock takes it.
#pragma once

#include "common/wire/segment.h"
#include "report/speed/clock/step_clock.h"

#include <span>
#include <vector>

namespace xpurun::launcher {

// In the order of the calls. The table entries of all events must be ready.
std::vector<report::GpuStart> gpu_starts(std::span<const wire::Event> events, const wire::Segment& memory);

}  // namespace xpurun::launcher
