// Which allocations are samples. Each thread counts down allocated bytes to a random number: an allocation of
// `whole` bytes or more is always a sample and stands for itself, of smaller ones one for each `interval`
// bytes on average, and stands for that many. So the sum of the samples that are alive is an unbiased
// estimate. The interval grows while samples cost more than their budget or are too many; what a thread had
// drawn before stands for as many bytes as it was drawn for.
#pragma once

#include "common/wire/heap_segment.h"
#include "preload/heap/live_set.h"
#include "preload/heap/stack.h"

#include <stdint.h>

namespace xpurun::preload {

struct HeapThread {
  uint64_t left;      // bytes to the next sample
  uint64_t interval;  // for which `left` was drawn
  uint64_t random;    // 0: not seeded
  uint32_t is_busy;   // within the library
};
// Of the thread that runs; all zero at first.
__attribute__((visibility("hidden"))) extern __thread HeapThread t_heap;

// Of one process. The kernel clears it in a forked child (MADV_WIPEONFORK), however that is made: the segment
// is the parent's.
struct HeapState {
  uint64_t is_on;
  uint8_t filter[HeapFilter::kBytes];
};
__attribute__((visibility("hidden"))) extern HeapState* g_heap;  // set before any function below is called

// The bytes that an allocation of `size` bytes stands for; 0: it is no sample. Pure but for the arguments.
uint64_t heap_weight(HeapThread& thread, uint64_t size, uint64_t interval);

// The supervisor's memory is there: from now on samples are taken. False if the kernel cannot clear the state
// in forked children. May be called again in a forked child, with memory of its own.
bool start_heap_sampling(wire::HeapSegment& shared);

bool is_heap_sampled();

// Of an allocation that has succeeded and may be a sample.
void heap_allocated(const void* memory, uint64_t size, const HeapCaller& caller);
HeapSample heap_frees(const void* memory);
// The memory was not freed after all.
void heap_keeps(const void* memory, const HeapSample& sample);

inline bool may_be_heap_sample(const void* memory) {
  return HeapFilter(g_heap->filter).may_have(reinterpret_cast<uint64_t>(memory));
}

}  // namespace xpurun::preload
