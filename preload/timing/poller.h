// The one thread of ours in a rank: makes events, asks which work has finished, and writes what it learns to
// shared memory. It starts with the first GPU call, runs at low priority, takes no signal, waits for nothing
// on the GPU, and never blocks a thread of the program.
#pragma once

namespace xpurun::preload {

bool start_poller();

// From atexit, before CUDA goes away: a last look, then the poller leaves CUDA alone. Bounded in time.
void finish_polling();

}  // namespace xpurun::preload
