#include "preload/timing/launch_gap.h"

#include "preload/timing/cuda_api.h"
#include "preload/timing/vendor.h"

#include <stdlib.h>
#include <string.h>

namespace xpurun::preload {

namespace {

// Medians of event pairs less CUPTI's kernels on four H200, ten shapes, on a busy stream: 6.8 to 7.3 us for
// bf16, 3.9 to 4.2 us for fp32, whatever the shape and whatever an empty pair took (2.0 to 2.5 us). See
// bench/RESULTS.md.
constexpr int kHopper = 9;
constexpr uint64_t kBf16Ns = 6900;
constexpr uint64_t kFp32Ns = 4000;
// On an idle stream, six H200: medians of 3.4 to 6.1 us after the return of calls that launch one kernel, 3
// us before to 2 us after that of calls that launch two.
constexpr uint64_t kAfterReturnNs = 4000;

}  // namespace

bool launches_return_at_once() {
  const char* blocking = getenv("CUDA_LAUNCH_BLOCKING");
  return blocking == nullptr || strcmp(blocking, "0") == 0;
}

void LaunchGap::set_up(int device) {
  int major = 0;
  if (cuda_api().device_attribute(&major, kAttributeComputeMajor, device) == 0) {
    compute_major_ = major;
  } else {
    forget_cuda_error();
  }
}

uint64_t LaunchGap::after_return_ns() const {
  return compute_major_ == kHopper ? kAfterReturnNs : 0;
}

uint64_t LaunchGap::ns(const wire::OpKey& key) const {
  if (compute_major_ != kHopper || key.op_class != static_cast<uint8_t>(wire::OpClass::matmul)) {
    return 0;
  }
  switch (key.dtype[0]) {
    case kR16BF:
      return kBf16Ns;
    case kR32F:
      return kFp32Ns;
    default:
      return 0;
  }
}

}  // namespace xpurun::preload
