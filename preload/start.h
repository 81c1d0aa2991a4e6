// Wires timing together: the one place that knows hooks, poller and profiler. Timing stays idle until the
// first hooked call of the process.
#pragma once

namespace xpurun::preload {

struct RunEnv;

// From the constructor. Registers what the state acts on.
void prepare_timing(const RunEnv& run);

}  // namespace xpurun::preload
