#include "preload/cuda/event_pool.h"

#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

namespace {
constinit EventPool g_pools[kMaxDevices];
}

EventPool* event_pool(int device) {
  return device >= 0 && device < kMaxDevices ? &g_pools[device] : nullptr;
}

void EventPool::want() {
  State expected = State::none;
  state_.compare_exchange_strong(expected, State::wanted);
}

void EventPool::fill(uint32_t wanted) {
  const CudaApi& cuda = cuda_api();
  const uint32_t first = size();
  for (uint32_t i = first; i < wanted; ++i) {
    if (cuda.event_create(&start_[i], 0) != 0 || cuda.event_create(&stop_[i], 0) != 0 ||
        cuda.event_create(&done_[i], kEventDisableTiming) != 0) {
      // Not tried again: CUDA is out of memory, or its context is broken.
      forget_cuda_error();
      state_.store(State::failed, std::memory_order_release);
      return;
    }
  }
  for (uint32_t i = first; i < wanted; ++i) {
    give(i);
  }
  made_.store(wanted, std::memory_order_relaxed);
  state_.store(State::ready, std::memory_order_release);
}

uint32_t EventPool::take() {
  uint64_t head = free_.load(std::memory_order_acquire);
  for (;;) {
    const auto index = static_cast<uint32_t>(head);
    if (index == kNoEvent) {
      return kNoEvent;
    }
    // Another thread may have taken `index` since, and `next_` may be stale. The count in the upper half has
    // then changed, and the exchange fails.
    const uint64_t next = ((head >> 32) + 1) << 32 | next_[index].load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(head, next, std::memory_order_acq_rel)) {
      return index;
    }
  }
}

void EventPool::give(uint32_t index) {
  uint64_t head = free_.load(std::memory_order_acquire);
  for (;;) {
    next_[index].store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    const uint64_t next = ((head >> 32) + 1) << 32 | index;
    if (free_.compare_exchange_weak(head, next, std::memory_order_acq_rel)) {
      return;
    }
  }
}

}  // namespace xpurun::preload
