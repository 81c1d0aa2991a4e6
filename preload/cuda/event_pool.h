// CUDA events of one device. The poller creates them in advance, because cudaEventCreate takes locks inside
// CUDA; they are never destroyed. Any thread takes and returns events, without a lock.
#pragma once

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

inline constexpr int kMaxDevices = 16;
inline constexpr uint32_t kPoolEvents = 4096;
inline constexpr uint32_t kNoEvent = 0xffffffff;

class EventPool {
 public:
  enum class State : uint32_t { none, wanted, ready, failed };

  State state() const { return state_.load(std::memory_order_acquire); }
  // Asks the poller to create this device's events. Any thread.
  void want();
  // Creates events until there are `wanted`. Poller only, with the device current.
  void fill(uint32_t wanted);
  uint32_t size() const { return made_.load(std::memory_order_relaxed); }

  // An index, or kNoEvent if all are in use.
  uint32_t take();
  void give(uint32_t index);

  void* start(uint32_t index) const { return start_[index]; }
  void* stop(uint32_t index) const { return stop_[index]; }
  void* done(uint32_t index) const { return done_[index]; }  // a completion event

 private:
  std::atomic<State> state_{State::none};
  std::atomic<uint32_t> made_{0};
  std::atomic<uint64_t> free_{
      kNoEvent};  // head of the free list: changes << 32 | index; the count of changes prevents ABA
  std::atomic<uint32_t> next_[kPoolEvents] = {};
  void* start_[kPoolEvents] = {};
  void* stop_[kPoolEvents] = {};
  void* done_[kPoolEvents] = {};
};

// `device` is the process's own number; nullptr if out of range.
EventPool* event_pool(int device);

}  // namespace xpurun::preload
