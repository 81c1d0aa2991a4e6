#include "preload/timing/gpu_clock.h"

#include "preload/timing/cuda_api.h"
#include "preload/timing/timed_call.h"
#include "preload/timing/vendor.h"

namespace xpurun::preload {

namespace {
constexpr uint64_t kRenewNs = 5'000'000'000;
}

void GpuClock::set_up() {
  const CudaApi& cuda = cuda_api();
  if (cuda.event_create(&event_[0], 0) != 0 || cuda.event_create(&event_[1], 0) != 0 ||
      cuda.stream_create(&stream_, kStreamNonBlocking) != 0) {
    forget_cuda_error();
    stream_ = nullptr;
  }
}

void GpuClock::tick() {
  if (stream_ == nullptr) {
    return;
  }
  const int other = current_ == 0 ? 1 : 0;
  if (waiting_) {
    const int state = cuda_api().event_query(event_[other]);
    if (state == 0) {
      current_ = other;
      waiting_ = false;
    } else if (state != kCudaErrorNotReady) {
      forget_cuda_error();
      stream_ = nullptr;
    }
    return;
  }
  const uint64_t before = now_ns();
  if (current_ >= 0 && before - anchor_ns_[current_] < kRenewNs) {
    return;
  }
  if (cuda_api().event_record(event_[other], stream_) != 0) {
    forget_cuda_error();
    stream_ = nullptr;
    return;
  }
  anchor_ns_[other] = before + (now_ns() - before) / 2;
  waiting_ = true;
}

uint64_t GpuClock::host_time_of(void* event) const {
  float ms = 0;
  if (stream_ == nullptr || current_ < 0) {
    return 0;
  }
  if (cuda_api().event_elapsed(&ms, event_[current_], event) != 0) {
    forget_cuda_error();
    return 0;
  }
  return anchor_ns_[current_] + static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(ms) * 1e6));
}

}  // namespace xpurun::preload
