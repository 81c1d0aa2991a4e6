// Exact counts of calls, by operation: each thread adds to its own slot in the segment, without an atomic
// addition. Nothing needs flushing: the supervisor reads the slots, even after the process was killed. A
// thread without a free slot (wire::kThreadSlots threads are alive) adds to the operation's entry atomically.
// Calling thread.
#pragma once

#include "preload/core/state.h"

namespace xpurun::preload {

// Counts for a thread without a slot, and occasionally looks for a free one.
void count_without_place(uint32_t op, uint64_t work);

inline void count_call(uint32_t op, uint64_t work) {
  wire::ThreadCounts* counts = t_thread.counts;
  if (counts == nullptr) [[unlikely]] {
    count_without_place(op, work);
    return;
  }
  // No other thread writes here.
  wire::OpCounts& mine = counts->ops[op];
  mine.calls.store(mine.calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (work != 0) {
    mine.work.store(mine.work.load(std::memory_order_relaxed) + work, std::memory_order_relaxed);
  }
}

// The number of the operation's calls that the thread has counted. Selects the samples.
inline uint64_t calls_counted_here(uint32_t op) {
  const wire::ThreadCounts* counts = t_thread.counts;
  return counts != nullptr ? counts->ops[op].calls.load(std::memory_order_relaxed)
                           : segment()->ops[op].calls.load(std::memory_order_relaxed);
}

}  // namespace xpurun::preload
