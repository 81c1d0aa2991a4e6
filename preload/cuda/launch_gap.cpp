#include "preload/cuda/launch_gap.h"

#include "preload/core/calibration.h"
#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

namespace {

constexpr int kHopper = 9;  // compute capability 9.x, the only one measured

}  // namespace

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
      return kBf16PairNs;
    case kR32F:
      return kFp32PairNs;
    default:
      return 0;
  }
}

}  // namespace xpurun::preload
