// The state of timing that every hooked call reads: the level in force, the shared memory, whether the thread
// is inside a vendor function already. The bottom of the preload's timing: this file knows nobody above. What
// has to happen above when the state changes (hooks on or off, timing started) is registered by start.cpp.
// Any thread; nothing here allocates or locks.
#pragma once

#include "common/wire/segment.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

// One cache line: between two hooked calls the program's own work has driven most of them out.
struct alignas(64) State {
  std::atomic<wire::Level> level{wire::Level::off};
  std::atomic<bool> host_events{false};
  std::atomic<wire::Segment*> segment{nullptr};
  std::atomic<int32_t> captures{0};  // stream captures under way (record/capture.h)
  std::atomic<uint32_t> sample{1};   // one call in so many is timed (record/sampling.h)
  std::atomic<uint32_t> mark{1};     // one collective in so many gets a completion event
  std::atomic<uint32_t> untimed{0};  // ToRank::untimed, as of the poller's last round
  std::atomic<uint32_t> times_off{0};
};
// Hidden: an access from the library is one instruction, without a look into the GOT.
__attribute__((visibility("hidden"))) extern State g_state;

// The same of a thread. Zero is the beginning.
struct alignas(64) ThreadState {
  uint32_t inside;             // hooked functions that the thread is inside of
  uint32_t counted_calls;      // for the choice of those whose cost is measured (record/own_cost.h)
  wire::ThreadCounts* counts;  // the thread's place (record/counts.h); nullptr: none, or not asked for yet
  uint32_t calls_without;      // without a place
};
__attribute__((visibility("hidden"))) extern __thread ThreadState t_thread;

// The level in force, as of the poller's last round.
inline wire::Level level() {
  return g_state.level.load(std::memory_order_relaxed);
}

inline bool is_timing_on() {
  return level() != wire::Level::off;
}

// Whether a trace wants the host time of each call, as of the poller's last round.
inline bool are_host_events_wanted() {
  return g_state.host_events.load(std::memory_order_relaxed);
}

// True if the calling thread may count and time. False inside a hooked function: the calls that a vendor
// library makes of itself belong to the call of the program.
inline bool may_record() {
  return is_timing_on() && t_thread.inside == 0;
}

// nullptr until attached. Valid until the process ends.
inline wire::Segment* segment() {
  return g_state.segment.load(std::memory_order_relaxed);
}

// Changes the level, and the hooks with it. Does nothing once timing has stopped.
void set_level(wire::Level level);
// How often the level has gone to off. A thread compares two values to learn that calls in between went
// unseen.
inline uint32_t times_switched_off() {
  return g_state.times_off.load(std::memory_order_relaxed);
}

// Gives up for good: from now on the hooks pass every call through.
void stop_timing(wire::OffReason reason);
// The same in a forked child, whose segment belongs to the parent and must not be written.
void stop_timing_after_fork();
bool has_stopped();

// What the state acts on. Registered once, by the constructor; nothing happens before.
struct Actions {
  void (*start)();  // at the first hooked call of the process, and at later first calls of a function
  void (*set_hooks)(bool on);
};
void register_actions(const Actions& actions);

// For hooks: the function is called for the first time.
void hooked_for_the_first_time();

// Marks the thread as being inside a vendor function.
class Inside {
 public:
  Inside() { ++t_thread.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --t_thread.inside; }
};

inline void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
