// Name, UUID and bus id of the GPU that a rank uses, for the labels of its metrics. From CUDA's driver
// library, if it is loaded.
#pragma once

#include "common/wire/segment.h"

namespace xpurun::preload {

// Only the first device of a process is described.
void describe_device(wire::SegmentHeader& header, int device);

}  // namespace xpurun::preload
