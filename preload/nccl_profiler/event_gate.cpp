#include "preload/nccl_profiler/event_gate.h"

#include "preload/core/state.h"

#include <sched.h>

namespace xpurun::preload {

namespace {

constexpr uint32_t kMasks = 4;
constexpr uint32_t kWriting = 1u << 31;

constinit std::atomic<int*> g_masks[kMasks] = {};
constinit std::atomic<int> g_own{0};
constinit std::atomic<const int*> g_users{nullptr};
constinit std::atomic<int32_t> g_asking{0};
// The number of threads in a point-to-point group, or kWriting while a thread writes the mask.
constinit std::atomic<uint32_t> g_gate{0};
constinit std::atomic<int> g_written{0};

int wanted() {
  const bool ask = g_asking.load() > 0 && is_timing_on();
  return users_events() | (ask ? g_own.load() : 0);
}

void write(int events) {
  for (std::atomic<int*>& mask : g_masks) {
    if (int* place = mask.load(std::memory_order_acquire)) {
      __atomic_store_n(place, events, __ATOMIC_SEQ_CST);
    }
  }
  g_written.store(events);
}

// Updates the mask. A thread that finds the gate closed may leave: the thread that opens the gate calls this
// again.
void update_mask() {
  // Repeated, because the wanted mask may change while this thread writes.
  while (g_written.load() != wanted()) {
    uint32_t open = 0;
    if (!g_gate.compare_exchange_strong(open, kWriting)) {
      return;
    }
    write(wanted());
    g_gate.store(0);
  }
}

}  // namespace

void add_event_mask(int* mask) {
  for (std::atomic<int*>& place : g_masks) {
    int* expected = nullptr;
    if (place.compare_exchange_strong(expected, mask) || expected == mask) {
      break;
    }
  }
  __atomic_store_n(mask, g_written.load(), __ATOMIC_SEQ_CST);
  update_mask();
}

void forget_event_masks() {
  for (std::atomic<int*>& mask : g_masks) {
    mask.store(nullptr);
  }
}

void set_own_events(int events) {
  g_own.store(events);
}

int own_events() {
  return g_own.load(std::memory_order_relaxed);
}

void set_users_mask(const int* mask) {
  g_users.store(mask);
}

int users_events() {
  const int* mask = g_users.load(std::memory_order_acquire);
  return mask == nullptr ? 0 : __atomic_load_n(mask, __ATOMIC_RELAXED);
}

bool ask_for_own_events() {
  g_asking.fetch_add(1);
  update_mask();
  const int own = own_events();
  return (g_written.load() & own) == own;
}

void stop_asking() {
  g_asking.fetch_sub(1);
  update_mask();
}

void enter_point_to_point() {
  uint32_t gate = g_gate.load();
  for (;;) {
    if ((gate & kWriting) != 0) {
      // Short: the writer only stores a few words.
      sched_yield();
      gate = g_gate.load();
    } else if (g_gate.compare_exchange_weak(gate, gate + 1)) {
      return;
    }
  }
}

void leave_point_to_point() {
  uint32_t gate = g_gate.load();
  while (gate != 0 && ((gate & kWriting) != 0 || !g_gate.compare_exchange_weak(gate, gate - 1))) {
    if ((gate & kWriting) != 0) {
      gate = g_gate.load();
    }
  }
  update_mask();
}

void refresh_event_masks(OpenGroups groups) {
  if (groups == OpenGroups::forget) {
    uint32_t gate = g_gate.load();
    while (gate != 0 && (gate & kWriting) == 0 && !g_gate.compare_exchange_weak(gate, 0)) {
    }
  }
  update_mask();
}

void forget_asking() {
  g_asking.store(0);
  g_gate.store(0);
  write(wanted());
}

}  // namespace xpurun::preload
