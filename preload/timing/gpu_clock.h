// Ties the GPU's clock to the host's: now and then an event on a stream of our own, idle but for this, beside
// the host's time at which it was handed over. What the host or the GPU has held up is not used. Renewed
// often because the clocks run apart (some us a second) and cudaEventElapsedTime counts in floats. The
// poller's alone.
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
  // Whether that is right to some us: on H200, +-2 us; else some 100 us.
  bool is_close() const;

 private:
  struct Anchor {
    void* event = nullptr;
    uint64_t before_ns = 0;
    uint64_t host_ns = 0;
  };

  bool begin_anchor(Anchor& anchor);
  // False: host or GPU was held up, and the old one stays.
  bool take(int other);
  // `late_ns`: how much later the GPU was there than by the anchor in use.
  bool is_good(const Anchor& anchor, double late_ns);
  void begin_rate();
  void measure_rate(double gpu_ns);

  void* stream_ = nullptr;
  Anchor anchor_[2];
  int current_ = -1;      // the anchor in use
  bool waiting_ = false;  // the other one is recorded, not seen to be finished
  uint32_t taken_ = 0;
  bool was_early_ = false;
  uint64_t first_ns_ = 0;
  uint64_t next_ns_ = 0;
  // What passes on the host in a second of the GPU's, less 1; and from when on it is measured anew.
  double rate_ = 0;
  bool is_rate_known_ = false;
  uint64_t rate_host_ns_ = 0;
  double rate_gpu_ns_ = 0;
};

}  // namespace xpurun::preload
