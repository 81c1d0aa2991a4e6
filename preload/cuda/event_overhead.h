// The time between two adjacent events: the minimum of 32 pairs on an otherwise idle stream, measured once
// per device. Poller's thread only; never waits.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class EventOverhead {
 public:
  // Call with the device current. After an error the overhead stays unknown.
  void begin();
  // Polls the pairs; true once, when the GPU has reached the last one.
  bool finish();
  // In ns; 0: unknown.
  uint64_t ns() const { return ns_; }

 private:
  static constexpr int kPairs = 32;

  void* event_[2 * kPairs] = {};
  bool waiting_ = false;
  uint64_t ns_ = 0;
};

// Whether the overhead is subtracted from durations (XPURUN_RUN_EVENT_CORRECTION is not 0).
bool events_are_corrected();

}  // namespace xpurun::preload
