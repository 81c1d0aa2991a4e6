// Which GPU a rank uses, for its labels: name, UUID, bus id. By CUDA's driver library, where one is loaded.
#pragma once

#include "common/wire/segment.h"

namespace xpurun::preload {

// The first device described stays.
void describe_device(wire::SegmentHeader& header, int device);

}  // namespace xpurun::preload
