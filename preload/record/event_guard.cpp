#include "preload/record/event_guard.h"

#include "preload/core/state.h"
#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

namespace {

constexpr uint32_t kStreamSlots = 64;

// Work in flight, by stream; streams with the same slot share a count.
constinit std::atomic<uint32_t> g_in_flight[kStreamSlots] = {};

std::atomic<uint32_t>& in_flight(void* stream) {
  const auto bits = reinterpret_cast<uintptr_t>(stream);
  return g_in_flight[(bits >> 4 ^ bits >> 12) % kStreamSlots];
}

wire::Health& health() {
  return segment()->header.health;
}

// A stalled stream must leave events to the others.
bool stream_has_room(void* stream, const EventPool& pool, EventGuard::Use use) {
  const uint32_t parts = use == EventGuard::Use::sample ? 4 : 16;
  return in_flight(stream).load(std::memory_order_relaxed) < pool.size() / parts;
}

HeldEvent take_event(void* stream, EventGuard::Use use) {
  HeldEvent held;
  if (!load_cuda_api() || error_is_pending() || cuda_api().get_device(&held.device) != 0) {
    return {};
  }
  EventPool* pool = event_pool(held.device);
  if (pool == nullptr || pool->state() != EventPool::State::ready) {
    if (pool != nullptr) {
      pool->want();
    }
    return {};
  }
  if (!stream_has_room(stream, *pool, use)) {
    add(health().stream_full, use == EventGuard::Use::sample ? 1 : 0);
    return {};
  }
  // Asks CUDA in any case: the capture may have begun while timing was off, or through a function that is not
  // hooked.
  if (is_capturing(stream)) {
    return {};
  }
  held.event = pool->take();
  if (held.event == kNoEvent) {
    add(health().no_event, 1);
  }
  return held;
}

}  // namespace

EventGuard::EventGuard(void* stream, Use use) : held_(take_event(stream, use)), stream_(stream) {}

bool EventGuard::record(Place place) {
  const EventPool& pool = *event_pool(held_.device);
  void* event = place == Place::start  ? pool.start(held_.event)
                : place == Place::stop ? pool.stop(held_.event)
                                       : pool.done(held_.event);
  if (cuda_api().event_record(event, stream_) == 0) {
    return true;
  }
  forget_cuda_error();
  return false;
}

HeldEvent EventGuard::keep() {
  const HeldEvent held = held_;
  held_.event = kNoEvent;
  return held;
}

bool EventGuard::hand_over(Pending& work) {
  work.stream = stream_;
  work.event = held_.event;
  work.device = held_.device;
  // Count first: the poller may see the end before this function returns.
  in_flight(stream_).fetch_add(1, std::memory_order_relaxed);
  if (!pending_queue().push(work)) {
    in_flight(stream_).fetch_sub(1, std::memory_order_relaxed);
    add(health().queue_full, 1);
    return false;
  }
  held_.event = kNoEvent;
  return true;
}

void EventGuard::give_back() {
  if (holds()) {
    event_pool(held_.device)->give(held_.event);
    held_.event = kNoEvent;
  }
}

uint32_t events_in_flight() {
  uint32_t sum = 0;
  for (const std::atomic<uint32_t>& count : g_in_flight) {
    sum += count.load(std::memory_order_relaxed);
  }
  return sum;
}

void give_back(const Pending& work) {
  event_pool(work.device)->give(work.event);
  in_flight(work.stream).fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
