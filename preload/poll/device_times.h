// Durations from events, by what is known about each device: the tie between its clock and the host's, and
// what a pair of events adds to the work between them. The poller's thread alone; never waits for a GPU.
#pragma once

#include "preload/cuda/event_overhead.h"
#include "preload/cuda/event_pool.h"
#include "preload/cuda/gpu_clock.h"
#include "preload/cuda/launch_gap.h"
#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

class DeviceTimes {
 public:
  // Reads the environment. Before everything else.
  void configure();
  // Whether the time that events add is taken off durations.
  bool corrects() const { return corrects_; }

  // With the device current, once.
  void set_up(int device);
  // Renews what is known.
  void tick(int device);
  // The overhead of a pair of events on the device, once: when it becomes known. Else 0.
  uint64_t new_overhead_ns(int device);

  // Begin and duration of finished work: by its events, or, if they were recorded without timing, by the
  // host. `last_end_ns` is when the work before it on the stream was seen to end. False if CUDA does not say.
  bool measure(const Pending& item, uint64_t last_end_ns, uint64_t now, wire::Event* event) const;

 private:
  uint64_t own_time_of_events(const Pending& item) const;
  void leave_out_the_launch(const Pending& item, uint64_t end_ns, wire::Event* event) const;

  GpuClock clocks_[kMaxDevices];
  EventOverhead overheads_[kMaxDevices];
  LaunchGap launch_gaps_[kMaxDevices];
  bool corrects_ = false;
  bool leaves_out_launches_ = false;
};

}  // namespace xpurun::preload
