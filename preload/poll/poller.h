// The library's only thread in a rank: creates events, polls for finished work, writes the results to the
// segment, follows the level and the budget. It starts with the first GPU call, runs at low priority,
// receives no signal, never waits for the GPU and never blocks a thread of the program.
#pragma once

namespace xpurun::preload {

// Call once. False if the thread cannot be created.
bool start_poller();

// Call from an exit handler, before CUDA is unloaded: lets the poller make one last round, after which it
// makes no CUDA calls. Waits at most 20 ms.
void finish_polling();

}  // namespace xpurun::preload
