// Whether a running thread circles: its complete state (registers, vector registers, used stack) comes back
// again and again while it uses a CPU. Such a thread goes nowhere until somebody else changes memory: a spin
// lock, a flag that nobody sets. A loop that counts or computes never comes back to a state.
#pragma once

#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/proc_maps.h"

#include <vector>

namespace xpurun::stackdump {

struct LoopState {
  uint64_t state = 0;   // a hash
  uint64_t ran_ns = 0;  // CPU time of the thread before
};

// Looks at the main thread many times within kLoopWatchNs, at uneven distances, and stops only this thread,
// for some microseconds each time. Ends early when the thread does not run. One thread must make all calls
// for a process.
inline constexpr int64_t kLoopWatchNs = 600'000'000;
bool main_thread_circles(base::Pid pid, LiveMemory& memory, const ProcMaps& maps);

// Pure: at least half of many looks met a state that an earlier look had met, and the thread ran in between.
bool comes_back(const std::vector<LoopState>& looks);

}  // namespace xpurun::stackdump
