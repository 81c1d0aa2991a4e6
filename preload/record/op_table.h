// The table of operations in shared memory: one entry for all calls of one kind, found without a lock. Two
// threads that meet a new key at the same instant may both enter it; readers add up equal keys.
#pragma once

#include "common/wire/segment.h"

namespace xpurun::preload {

// The index of the entry for `key`, which must have been zeroed before it was filled. If the table is full,
// the entry that collects the rest of the class.
uint32_t find_op(wire::Segment& segment, const wire::OpKey& key);

// find_op() in this process's segment, for calls that are likely to repeat: each thread caches its latest
// keys.
uint32_t find_op_again(const wire::OpKey& key);

}  // namespace xpurun::preload
