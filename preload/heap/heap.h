// The sampling of the memory of this process, from the constructor on.
#pragma once

#include "preload/process/process_kind.h"
#include "preload/process/run_env.h"

namespace xpurun::preload {

// Asks the supervisor for the segment if the process may be a rank; without it, the functions of memory are
// one jump.
void start_heap(const RunEnv& run, ProcessKind kind);

}  // namespace xpurun::preload
