// Timing as a whole: starts at the first hooked call of the process, gives every thread its way into the
// shared memory, and switches itself off for good when something is wrong. Nothing here allocates or locks.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

struct RunEnv;

// From the constructor: only what is learned from the environment. Timing stays idle.
void prepare_timing(const RunEnv& run);

// Asks the supervisor for the segment and starts the poller, once per process; later calls return at once.
void start_timing();

bool is_timing_on();

// True if the calling thread may count and time: timing is on and the call does not come from inside a hooked
// function, whose inner calls are its own business.
bool may_record();

// nullptr until attached. Valid until the process ends.
wire::Segment* segment();

// Level in force, as the poller last saw it.
wire::Level level();
void set_level(wire::Level level);

// Gives up: hooks pass everything through from now on.
void stop_timing(wire::OffReason reason);

// Marks the thread as being inside a vendor function.
class Inside {
 public:
  Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside();
};

inline void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
