// What a pair of events around a matmul adds to the time of its kernel, where that was measured. It is more
// than a pair with nothing between it is apart: a kernel begins so much after the event before it.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

class LaunchGap {
 public:
  // Asks CUDA what kind of GPU it is. The poller's alone; never waits.
  void set_up(int device);
  // 0: not known for this kind of GPU and matrices, or the call is no matmul.
  uint64_t ns(const wire::OpKey& key) const;

 private:
  int compute_major_ = 0;
};

}  // namespace xpurun::preload
