// Ties the GPU's clock to the host's: now and then an event on a stream of our own, idle but for this, beside
// the host's time. Renewed every few seconds because cudaEventElapsedTime counts in floats. The poller's
// alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class GpuClock {
 public:
  // With the device current. A clock that cannot be set up stays silent.
  void set_up();
  // Renews the anchor if it is old; never waits.
  void tick();
  // Host time of an event that has finished, or 0.
  uint64_t host_time_of(void* event) const;

 private:
  void* stream_ = nullptr;
  void* event_[2] = {nullptr, nullptr};
  uint64_t anchor_ns_[2] = {0, 0};
  int current_ = -1;      // the anchor in use
  bool waiting_ = false;  // the other one is recorded, not seen to be finished
};

}  // namespace xpurun::preload
