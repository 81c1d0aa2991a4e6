// What plugin.cpp, chain.cpp and profiler.cpp know of each other.
#pragma once

#include "preload/nccl_profiler/chain.h"
#include "preload/nccl_profiler/records.h"

#include <stdint.h>

namespace xpurun::preload {

// NCCL has opened us, by the interface of that version: decides what it will be asked for. The first call of
// the process decides.
void load_profiler(int version, const Communicator& first);

// The collectives that the calling thread is about to have launched.
const OwnRecords& expected_here();

// One of the tables that this library exports.
bool is_own_table(const void* table);

}  // namespace xpurun::preload
