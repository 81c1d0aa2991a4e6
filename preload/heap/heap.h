// The sampling of the memory of this process, from the constructor on.
#pragma once

#include "preload/process/process_kind.h"
#include "preload/process/run_env.h"

namespace xpurun::preload {

// Asks the supervisor for the segment if the process may be a rank; without it, the functions of memory are
// one jump.
void start_heap(const RunEnv& run, ProcessKind kind);

// Called by Python in a worker of a data loader, which a rank has forked or started: its memory is sampled
// from now on, in memory of its own. Does nothing without a supervisor that wants samples.
extern "C" void xpurun_sample_worker();

}  // namespace xpurun::preload
