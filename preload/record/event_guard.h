// EventGuard: owns an event of the pool while it is taken, recorded and handed to the poller. Unless the
// event is handed over, or kept for later, it returns to the pool on every path. Thread rule: the thread that
// calls the vendor function.
#pragma once

#include "preload/cuda/event_pool.h"
#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

// An event between two guards: from before the vendor call until after it. Plain data, so that tickets can be
// in thread-local memory.
struct HeldEvent {
  uint32_t event = kNoEvent;
  int32_t device = -1;
};

class EventGuard {
 public:
  enum class Place { start, stop, done };  // `done` is a completion event
  // Completion events leave room for samples: some of them show the progress as well as many.
  enum class Use { sample, progress };

  // Takes an event of the calling thread's device for work on `stream`. Holds none if there is no pool yet,
  // no event is free, too much of the stream's work is in flight, the program has a pending error, or the
  // stream is being captured.
  explicit EventGuard(void* stream, Use use = Use::sample);
  // Takes over an event that another guard has kept.
  EventGuard(const HeldEvent& held, void* stream) : held_(held), stream_(stream) {}
  EventGuard(const EventGuard&) = delete;
  EventGuard& operator=(const EventGuard&) = delete;
  ~EventGuard() { give_back(); }

  bool holds() const { return held_.event != kNoEvent; }
  int32_t device() const { return held_.device; }

  // False if CUDA refuses. The program does not see the error.
  bool record(Place place);
  // Releases the event without returning it to the pool.
  HeldEvent keep();
  // Hands the event to the poller, which returns it to the pool when the GPU has reached it. Sets event,
  // device and stream in `work`. False if the poller is too far behind.
  bool hand_over(Pending& work);

 private:
  void give_back();

  HeldEvent held_;
  void* stream_;
};

// Events of the work in flight, on all devices.
uint32_t events_in_flight();

// The poller has seen the event of this work, or gives it up: decrements the work in flight and frees the
// event.
void give_back(const Pending& work);

}  // namespace xpurun::preload
