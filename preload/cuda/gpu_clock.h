// Aligns the GPU's clock with the host's. An anchor is an event on an otherwise idle stream of this library,
// together with the host time of its submission. Anchors that the host or the GPU delayed are not used.
// Anchors are renewed often, because the clocks drift apart by some us per second and cudaEventElapsedTime
// returns a float of ms, which has about 7 digits. Poller's thread only.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class GpuClock {
 public:
  // Call with the device current. On failure the clock gives no times.
  void set_up();
  // Renews the anchor if due; never waits.
  void tick();
  // Host time of an event that has finished, or 0.
  uint64_t host_time_of(void* event) const;
  // Whether host_time_of() is accurate to some us (H200: 2 us); otherwise it may be off by some 100 us.
  bool is_close() const;

 private:
  struct Anchor {
    void* event = nullptr;
    uint64_t before_ns = 0;
    uint64_t host_ns = 0;
  };

  bool begin_anchor(Anchor& anchor);
  // False: the host or the GPU delayed the anchor, and the old one stays.
  bool take(int other);
  // `late_ns`: the GPU's delay against the prediction of the current anchor.
  bool is_good(const Anchor& anchor, double late_ns);
  void begin_rate();
  void measure_rate(double gpu_ns);

  void* stream_ = nullptr;
  Anchor anchor_[2];
  int current_ = -1;      // the current anchor
  bool waiting_ = false;  // the other anchor is recorded, and not yet known to be finished
  uint32_t taken_ = 0;
  bool was_early_ = false;
  uint64_t first_ns_ = 0;
  uint64_t next_ns_ = 0;
  // Host time per GPU time, minus 1, and the start of the current measurement of the rate.
  double rate_ = 0;
  bool is_rate_known_ = false;
  uint64_t rate_host_ns_ = 0;
  double rate_gpu_ns_ = 0;
};

}  // namespace xpurun::preload
