// When a kernel begins, where that was measured: so much after the event before it, if the GPU had it in hand
// by then, which is more than two events with nothing between them are apart; else so much after the call
// returned.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

// False if launches return when the kernel has ended (CUDA_LAUNCH_BLOCKING).
bool launches_return_at_once();

class LaunchGap {
 public:
  // Asks CUDA what kind of GPU it is. The poller's alone; never waits.
  void set_up(int device);
  // What a pair of events around it adds to its time. 0: not known for this kind of GPU and matrices, or the
  // call is no matmul.
  uint64_t ns(const wire::OpKey& key) const;
  // 0: not known for this kind of GPU.
  uint64_t after_return_ns() const;

 private:
  int compute_major_ = 0;
};

}  // namespace xpurun::preload
