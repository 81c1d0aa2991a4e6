#include "preload/timing/launch_gap.h"

#include "preload/timing/cuda_api.h"
#include "preload/timing/vendor.h"

namespace xpurun::preload {

namespace {

// Medians of event pairs less CUPTI's kernels on four H200, ten shapes, on a busy stream: 6.8 to 7.3 us for
// bf16, 3.9 to 4.2 us for fp32, whatever the shape and whatever an empty pair took (2.0 to 2.5 us). See
// bench/RESULTS.md.
constexpr int kHopper = 9;
constexpr uint64_t kBf16Ns = 6900;
constexpr uint64_t kFp32Ns = 4000;

}  // namespace

void LaunchGap::set_up(int device) {
  int major = 0;
  if (cuda_api().device_attribute(&major, kAttributeComputeMajor, device) == 0) {
    compute_major_ = major;
  } else {
    forget_cuda_error();
  }
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
