// The table of operations in shared memory: one entry for calls that are alike, found without a lock. Two
// threads that meet a new key at the same instant may both enter it; readers add equal keys up.
#pragma once

#include "common/wire/segment.h"

namespace xpurun::preload {

// `key` must have been zeroed before it was filled. When there is no room: the entry of everything else of
// that class.
uint32_t find_op(wire::Segment& segment, const wire::OpKey& key);

}  // namespace xpurun::preload
