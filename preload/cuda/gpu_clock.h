// Ties the GPU's clock to the host's. An anchor is an event on a stream of the library's own, which is
// otherwise idle, and the host's time at which the event was handed over. Anchors that the host or the GPU
// delayed are not used. Anchors are renewed often, because the clocks run apart by some us a second and
// cudaEventElapsedTime returns a float of ms, which has about 7 digits. The poller's thread alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

class GpuClock {
 public:
  // With the device current. A clock that cannot be set up stays silent.
  void set_up();
  // Renews the anchor if it is due; never waits.
  void tick();
  // Host time of an event that has finished, or 0.
  uint64_t host_time_of(void* event) const;
  // Whether host_time_of() is right to some us (H200: 2 us); else it may be off by some 100 us.
  bool is_close() const;

 private:
  struct Anchor {
    void* event = nullptr;
    uint64_t before_ns = 0;
    uint64_t host_ns = 0;
  };

  bool begin_anchor(Anchor& anchor);
  // False: host or GPU delayed the anchor, and the old one stays.
  bool take(int other);
  // `late_ns`: how much later the GPU arrived than the anchor in use predicts.
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
  // Host time per GPU time, less 1, and where the current measurement of the rate began.
  double rate_ = 0;
  bool is_rate_known_ = false;
  uint64_t rate_host_ns_ = 0;
  double rate_gpu_ns_ = 0;
};

}  // namespace xpurun::preload
