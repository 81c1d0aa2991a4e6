// How far apart two events are that have nothing between them: the least of some pairs on a stream of our own
// with nothing else on it, recorded once for a device. The poller's alone; never waits.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class EventOverhead {
 public:
  // With the device current. What goes wrong leaves it unknown.
  void begin();
  // Looks whether the pairs are done; true once, when they are.
  bool finish();
  // 0: not known.
  uint64_t ns() const { return ns_; }

 private:
  static constexpr int kPairs = 32;

  void* event_[2 * kPairs] = {};
  bool waiting_ = false;
  uint64_t ns_ = 0;
};

// Whether it is to be taken off durations: unless kEventCorrectionEnv says no.
bool events_are_corrected();

}  // namespace xpurun::preload
