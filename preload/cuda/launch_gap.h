// When a kernel begins, for the kinds of GPU where that was measured (core/calibration.h). On a busy stream:
// a fixed time after the start event, which is longer than an empty pair of events takes. On an idle stream:
// a fixed time after the launching call has returned.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

class LaunchGap {
 public:
  // Asks CUDA for the kind of the GPU. The poller's thread alone; never waits.
  void set_up(int device);
  // What a pair of events adds to the duration of the matmul between them. 0: not measured for this GPU and
  // data type, or the operation is not a matmul.
  uint64_t ns(const wire::OpKey& key) const;
  // From the return of the launching call to the begin of the kernel. 0: not measured for this GPU.
  uint64_t after_return_ns() const;

 private:
  int compute_major_ = 0;
};

}  // namespace xpurun::preload
