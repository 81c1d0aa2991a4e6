// The start of a kernel, for the kinds of GPU on which it was measured (core/calibration.h). On a busy
// stream: a fixed time after the start event, longer than an empty pair of events. On an idle stream: a fixed
// time after the return of the launching call.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

class LaunchGap {
 public:
  // Asks CUDA for the kind of GPU. Poller's thread only; never waits.
  void set_up(int device);
  // The time that a pair of events adds to the duration of the matmul between them, in ns. 0: not measured
  // for this GPU and data type, or the operation is no matmul.
  uint64_t ns(const wire::OpKey& key) const;
  // From the return of the launching call to the start of the kernel, in ns. 0: not measured for this GPU.
  uint64_t after_return_ns() const;

 private:
  int compute_major_ = 0;
};

}  // namespace xpurun::preload
