#include "preload/cuda/launch_gap.h"

#include "common/wire/event_pair.h"
#include "preload/core/calibration.h"
#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

void LaunchGap::set_up(int device) {
  int major = 0;
  if (cuda_api().device_attribute(&major, kAttributeComputeMajor, device) == 0) {
    compute_major_ = major;
  } else {
    forget_cuda_error();
  }
}

uint64_t LaunchGap::after_return_ns() const {
  return compute_major_ == wire::kMeasuredComputeMajor ? kAfterReturnNs : 0;
}

uint64_t LaunchGap::ns(const wire::OpKey& key) const {
  return key.op_class == static_cast<uint8_t>(wire::OpClass::matmul)
             ? wire::matmul_pair_ns(compute_major_, key.dtype[0])
             : 0;
}

}  // namespace xpurun::preload
