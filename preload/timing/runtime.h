// Timing as a whole: starts at the first hooked call of the process, gives every thread its way into the
// shared memory, and switches itself off for good when something is wrong. Nothing here allocates or locks.
#pragma once

#include "common/wire/segment.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

struct RunEnv;

// From the constructor: only what is learned from the environment. Timing stays idle.
void prepare_timing(const RunEnv& run);

// Asks the supervisor for the segment and starts the poller, once per process; later calls return at once.
void start_timing();

// What every hooked call looks at; written by runtime.cpp alone.
struct State {
  std::atomic<wire::Level> level{wire::Level::off};
  std::atomic<wire::Segment*> segment{nullptr};
  std::atomic<bool> host_events{false};
};
__attribute__((visibility("hidden"))) extern State g_state;
__attribute__((visibility("hidden"))) extern __thread uint32_t t_inside;

// Level in force, as the poller last saw it.
inline wire::Level level() {
  return g_state.level.load(std::memory_order_relaxed);
}
void set_level(wire::Level level);
// How often it has gone off: what a thread has begun before, it will not be seen to end.
uint32_t times_switched_off();

inline bool is_timing_on() {
  return level() != wire::Level::off;
}

// What calls take on the host is to be kept; as the poller last saw it.
inline bool are_host_events_wanted() {
  return g_state.host_events.load(std::memory_order_relaxed);
}

// True if the calling thread may count and time: timing is on and the call does not come from inside a hooked
// function, whose inner calls are its own business.
inline bool may_record() {
  return is_timing_on() && t_inside == 0;
}

// nullptr until attached. Valid until the process ends.
inline wire::Segment* segment() {
  return g_state.segment.load(std::memory_order_relaxed);
}

// Gives up: hooks pass everything through from now on.
void stop_timing(wire::OffReason reason);

// Marks the thread as being inside a vendor function.
class Inside {
 public:
  Inside() { ++t_inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --t_inside; }
};

inline void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
