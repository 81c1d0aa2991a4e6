// Durations from events, corrected per device: by the alignment of its clock with the host's, and by the time
// that a pair of events adds to the work between them. Poller's thread only; never waits for a GPU.
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
  // Reads the environment. Call first.
  void configure();
  // Whether the added time of events is subtracted from durations.
  bool corrects() const { return corrects_; }

  // Call once, with the device current.
  void set_up(int device);
  // Renews the clock alignment and the overhead.
  void tick(int device);
  // The overhead of a pair of events on the device, in ns: nonzero once, when it becomes known.
  uint64_t new_overhead_ns(int device);

  // Start and duration of finished work: by its events or, if these were recorded without timing, by the
  // host. `last_end_ns` is the observed end of the previous work on the stream. False if CUDA gives no times.
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
