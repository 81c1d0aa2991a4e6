// Name, UUID and bus id of a rank's GPU, for the labels of its metrics. From CUDA's driver library, if
// loaded.
#pragma once

#include "common/wire/segment.h"

namespace xpurun::preload {

// Describes only a process's first device.
void describe_device(wire::SegmentHeader& header, int device);

}  // namespace xpurun::preload
