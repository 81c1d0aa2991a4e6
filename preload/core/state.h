// The state of timing that every hooked call reads: the level in force, the shared memory, whether the thread
// is already inside a vendor function. The lowest layer of the preload library's timing: it knows no layer
// above. start.cpp registers the actions to take when the state changes (hooks on or off, timing started).
// Any thread; no allocation, no locks.
#pragma once

#include "common/wire/segment.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

// Fits one cache line, because between two hooked calls the program's own work evicts most lines.
struct alignas(64) State {
  std::atomic<wire::Level> level{wire::Level::off};
  std::atomic<bool> host_events{false};
  std::atomic<wire::Segment*> segment{nullptr};
  std::atomic<int32_t> captures{0};  // stream captures in progress (record/capture.h)
  std::atomic<uint32_t> sample{1};   // sampling interval: one call in `sample` is timed (record/sampling.h)
  std::atomic<uint32_t> mark{1};     // one collective in `mark` gets a completion event
  std::atomic<uint32_t> untimed{0};  // ToRank::untimed, at the poller's last round
  std::atomic<uint32_t> times_off{0};
  std::atomic<wire::Every> every{wire::Every::none};  // ToRank::every, at the poller's last round
  std::atomic<uint8_t> due{0};  // what is timed next as the first of its step (record/step_anchor.h)
  std::atomic<bool> all_collectives{false};  // every collective of this step is timed (record/step_anchor.h)
};
// Hidden visibility: an access from the library takes one instruction, without a look-up in the GOT.
__attribute__((visibility("hidden"))) extern State g_state;

// The state of a thread; initially zero.
struct alignas(64) ThreadState {
  uint32_t inside;             // number of hooked functions that the thread is inside of
  uint32_t counted_calls;      // selects the calls whose cost is measured (record/own_cost.h)
  wire::ThreadCounts* counts;  // the thread's slot (record/counts.h); nullptr: none, or not yet requested
  uint32_t calls_without;      // calls without a slot
};
__attribute__((visibility("hidden"))) extern __thread ThreadState t_thread;

// The level in force, at the poller's last round.
inline wire::Level level() {
  return g_state.level.load(std::memory_order_relaxed);
}

inline bool is_timing_on() {
  return level() != wire::Level::off;
}

// Whether a trace needs the host time of each call, at the poller's last round.
inline bool are_host_events_wanted() {
  return g_state.host_events.load(std::memory_order_relaxed);
}

// True if the calling thread may count and time. False inside a hooked function: calls that a vendor library
// makes itself belong to the program's call.
inline bool may_record() {
  return is_timing_on() && t_thread.inside == 0;
}

// nullptr until attached. Valid until the process ends.
inline wire::Segment* segment() {
  return g_state.segment.load(std::memory_order_relaxed);
}

// Changes the level, and the hooks with it. Does nothing once timing has stopped.
void set_level(wire::Level level);
// How often the level has changed to off. By comparing two values, a thread learns whether calls in between
// were missed.
inline uint32_t times_switched_off() {
  return g_state.times_off.load(std::memory_order_relaxed);
}

// Stops timing permanently: from now on the hooks pass every call through.
void stop_timing(wire::OffReason reason);
// Stops timing in a forked child, whose segment belongs to the parent and must not be written.
void stop_timing_after_fork();
bool has_stopped();

// The actions on changes of the state. The constructor registers them once; before that nothing happens.
struct Actions {
  void (*start)();  // at the process's first hooked call, and at the first call of each further function
  void (*set_hooks)(bool on);
  void (*follow_capture)(uint32_t wanted);  // in each round of the poller, on its thread
};
void register_actions(const Actions& actions);

// For the poller: hands a changed ToRank::capture on.
void follow_capture_request(uint32_t wanted);

// For hooks, at a function's first call.
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
