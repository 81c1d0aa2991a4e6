// How far apart two events are with nothing between them: the least of 32 pairs on an otherwise idle stream,
// measured once a device. The poller's thread alone; never waits.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class EventOverhead {
 public:
  // With the device current. After an error the overhead stays unknown.
  void begin();
  // Polls the pairs; true once, when the GPU has reached the last.
  bool finish();
  // 0: not known.
  uint64_t ns() const { return ns_; }

 private:
  static constexpr int kPairs = 32;

  void* event_[2 * kPairs] = {};
  bool waiting_ = false;
  uint64_t ns_ = 0;
};

// Whether the overhead is to be taken off durations (XPURUN_RUN_EVENT_CORRECTION is not 0).
bool events_are_corrected();

}  // namespace xpurun::preload
