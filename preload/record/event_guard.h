// EventGuard: owns an event of the pool while it is taken, recorded and handed over to the poller. On every
// way out that does not hand it over, or keep it for later, the event goes back to the pool. The thread that
// calls the vendor function.
#pragma once

#include "preload/cuda/event_pool.h"
#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

// An event between two guards: from before the vendor call until after it. Plain data, so that tickets can be
// kept in thread-local memory.
struct HeldEvent {
  uint32_t event = kNoEvent;
  int32_t device = -1;
};

class EventGuard {
 public:
  enum class Place { start, stop, done };  // `done` is recorded without timing

  // Takes an event of the calling thread's device for work on `stream`. Holds none if there is no pool yet,
  // none is free, too much of the stream's work is in flight, the program has an error pending, or the stream
  // is captured.
  explicit EventGuard(void* stream);
  // Takes over an event that another guard has kept.
  EventGuard(const HeldEvent& held, void* stream) : held_(held), stream_(stream) {}
  EventGuard(const EventGuard&) = delete;
  EventGuard& operator=(const EventGuard&) = delete;
  ~EventGuard() { give_back(); }

  bool holds() const { return held_.event != kNoEvent; }
  int32_t device() const { return held_.device; }

  // False if CUDA refuses. The program does not see the error.
  bool record(Place place);
  // Lets go of the event without giving it back.
  HeldEvent keep();
  // Gives the event to the poller, which returns it to the pool when the GPU has reached it. `work` is
  // completed with event, device and stream. False if the poller is too far behind.
  bool hand_over(Pending& work);

 private:
  void give_back();

  HeldEvent held_;
  void* stream_;
};

// The poller has seen the event of this work, or gives it up: one less in flight, and the event is free
// again.
void give_back(const Pending& work);

}  // namespace xpurun::preload
