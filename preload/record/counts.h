// Exact counts of calls, by operation: each thread adds to a place of its own in the segment, without an
// atomic addition. Nothing has to be flushed: the supervisor reads the places, also after the process was
// killed. A thread that finds no place free (wire::kThreadSlots threads live already) adds to the operation's
// entry atomically. The calling thread.
#pragma once

#include "preload/core/state.h"

namespace xpurun::preload {

// The same for a thread without a place: looks for one now and then.
void count_without_place(uint32_t op, uint64_t work);

inline void count_call(uint32_t op, uint64_t work) {
  wire::ThreadCounts* counts = t_thread.counts;
  if (counts == nullptr) [[unlikely]] {
    count_without_place(op, work);
    return;
  }
  // Nobody else writes here.
  wire::OpCounts& mine = counts->ops[op];
  mine.calls.store(mine.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (work != 0) {
    mine.work.store(mine.work.load(std::memory_order_relaxed) + work, std::memory_order_relaxed);
  }
}

// How many calls of the operation the thread has counted. For the choice of samples.
inline uint64_t calls_counted_here(uint32_t op) {
  const wire::ThreadCounts* counts = t_thread.counts;
  return counts != nullptr ? counts->ops[op].calls.load(std::memory_order_relaxed)
                           : segment()->ops[op].calls.load(std::memory_order_relaxed);
}

}  // namespace xpurun::preload
