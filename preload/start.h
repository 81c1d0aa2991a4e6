// Wires timing together: the only file that knows hooks, poller, profiler and captures. Timing stays idle
// until the first hooked call of the process.
#pragma once

namespace xpurun::preload {

struct RunEnv;

// Call from the constructor. Registers the actions of the state.
void prepare_timing(const RunEnv& run);

}  // namespace xpurun::preload
