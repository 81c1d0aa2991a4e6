#include "preload/heap/sampler.h"

#include "preload/core/clock.h"

#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace xpurun::preload {

__thread HeapThread t_heap;
HeapState* g_heap = nullptr;

namespace {

// A sample costs about 2 us, so this is a share of 0.05 %.
constexpr uint64_t kSampleNs = 4'000'000;
// So many samples in a row are within the budget: a program that starts allocates much.
constexpr uint64_t kBurstNs = 2048 * kSampleNs;
// So many follow each change of the interval.
constexpr uint64_t kNextNs = 256 * kSampleNs;
constexpr uint32_t kCoarsest = 14;
constexpr int64_t kMostLive = wire::kHeapLive * 3 / 8;  // the table, and the filter, stay sparse
constexpr uint64_t kLookEvery = 512;                    // samples, for their number

wire::HeapSegment* g_shared = nullptr;
constinit std::atomic<uint64_t> g_paid_ns{0};  // until then, samples of the past have used up the budget

uint64_t random_of(HeapThread& thread) {
  if (thread.random == 0) {
    thread.random = heap_mix(now_ns(), reinterpret_cast<uint64_t>(&thread)) | 1;
  }
  thread.random ^= thread.random << 13;
  thread.random ^= thread.random >> 7;
  thread.random ^= thread.random << 17;
  return thread.random;
}

uint64_t interval_of(const wire::HeapSegment& shared) {
  const uint64_t asked = shared.interval.load(std::memory_order_relaxed);
  const uint32_t coarser = shared.coarser.load(std::memory_order_relaxed);
  return asked << (coarser < kCoarsest ? coarser : kCoarsest);
}

void change_interval(wire::HeapSegment& shared, uint32_t from, uint32_t to) {
  shared.coarser.compare_exchange_strong(from, to, std::memory_order_relaxed);
}

void keep_to_budget(wire::HeapSegment& shared) {
  const uint64_t now = coarse_now_ns();
  const uint32_t coarser = shared.coarser.load(std::memory_order_relaxed);
  const bool is_crowded = shared.live.load(std::memory_order_relaxed) > kMostLive;
  uint64_t paid = g_paid_ns.load(std::memory_order_relaxed);
  const bool is_calm = paid + kBurstNs <= now;
  uint64_t next = (is_calm ? now - kBurstNs : paid) + kSampleNs;
  if (next > now && coarser < kCoarsest) {
    change_interval(shared, coarser, coarser + 1);
    next = now - kNextNs;
  } else if (is_crowded && coarser < kCoarsest &&
             shared.samples.load(std::memory_order_relaxed) % kLookEvery == 0) {
    change_interval(shared, coarser, coarser + 1);
  } else if (is_calm && coarser > 0 && !is_crowded) {
    change_interval(shared, coarser, coarser - 1);
    next = now - kNextNs;
  }
  g_paid_ns.compare_exchange_strong(paid, next, std::memory_order_relaxed);
}

}  // namespace

uint64_t heap_weight(HeapThread& thread, uint64_t size, uint64_t interval) {
  const uint64_t whole = 2 * interval;
  if (thread.random == 0) {
    // The lesser of two numbers: how far the next sample is from any byte of a thread that has run for long.
    const uint64_t one = random_of(thread) % whole;
    const uint64_t other = random_of(thread) % whole;
    thread.left = 1 + (one < other ? one : other);
    thread.interval = interval;
  }
  if (size >= whole) {
    return size;
  }
  uint64_t weight = 0;
  while (thread.left <= size) {
    weight += thread.interval;
    thread.interval = interval;
    thread.left += 1 + random_of(thread) % whole;
  }
  thread.left -= size;
  return weight;
}

bool is_heap_sampled() {
  return g_heap != nullptr && __atomic_load_n(&g_heap->is_on, __ATOMIC_RELAXED) != 0;
}

namespace {

bool map_state() {
  void* memory = mmap(nullptr, sizeof(HeapState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  if (madvise(memory, sizeof(HeapState), MADV_WIPEONFORK) != 0) {
    munmap(memory, sizeof(HeapState));
    return false;
  }
  g_heap = static_cast<HeapState*>(memory);
  return true;
}

}  // namespace

bool start_heap_sampling(wire::HeapSegment& shared) {
  // A forked child has its parent's mapping, cleared.
  if (g_heap == nullptr && !map_state()) {
    return false;
  }
  if (g_shared != nullptr && g_shared->python.ready.load(std::memory_order_acquire) != 0) {
    // The interpreter of a forked child is its parent's. All but the first field, which publishes the others.
    constexpr size_t kFirst = sizeof(shared.python.ready);
    memcpy(reinterpret_cast<char*>(&shared.python) + kFirst,
           reinterpret_cast<const char*>(&g_shared->python) + kFirst, sizeof(shared.python) - kFirst);
    shared.python.ready.store(1, std::memory_order_release);
  }
  g_shared = &shared;
  g_paid_ns.store(coarse_now_ns() > kBurstNs ? coarse_now_ns() - kBurstNs : 0);
  g_heap->is_on = 1;
  return true;
}

void heap_allocated(const void* memory, uint64_t size, const HeapCaller& caller) {
  constexpr uint64_t kNever = uint64_t{1} << 62;
  constexpr uint64_t kWhileOff = uint64_t{1} << 20;
  HeapThread& thread = t_heap;
  if (__atomic_load_n(&g_heap->is_on, __ATOMIC_RELAXED) == 0) {
    thread.left = kNever;
    return;
  }
  wire::HeapSegment& shared = *g_shared;
  const uint64_t interval = interval_of(shared);
  if (interval == 0) {
    thread.left = kWhileOff;
  }
  if (thread.is_busy != 0 || memory == nullptr || interval == 0) {
    return;
  }
  thread.is_busy = 1;
  if (const uint64_t weight = heap_weight(thread, size, interval); weight != 0) {
    HeapFilter filter(g_heap->filter);
    keep_to_budget(shared);
    add_heap_sample(shared, filter, reinterpret_cast<uint64_t>(memory),
                    {.bytes = weight, .stack = heap_stack(shared, caller)});
  }
  thread.is_busy = 0;
}

HeapSample heap_frees(const void* memory) {
  if (__atomic_load_n(&g_heap->is_on, __ATOMIC_RELAXED) == 0) {
    return {};
  }
  HeapFilter filter(g_heap->filter);
  return remove_heap_sample(*g_shared, filter, reinterpret_cast<uint64_t>(memory));
}

void heap_keeps(const void* memory, const HeapSample& sample) {
  if (sample.bytes != 0) {
    HeapFilter filter(g_heap->filter);
    add_heap_sample(*g_shared, filter, reinterpret_cast<uint64_t>(memory), sample);
  }
}

}  // namespace xpurun::preload
