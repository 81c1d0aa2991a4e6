// The library's only thread in a rank: makes events, polls for finished work, writes what it learns to the
// segment, follows the level and the budget. It starts with the first GPU call, runs at low priority,
// receives no signal, never waits for the GPU and never blocks a thread of the program.
#pragma once

namespace xpurun::preload {

bool start_poller();

// From an exit handler, before CUDA goes away: lets the poller make one last round and leave CUDA alone.
// Waits at most 20 ms.
void finish_polling();

}  // namespace xpurun::preload
