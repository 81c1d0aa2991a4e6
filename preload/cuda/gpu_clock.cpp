#include "preload/cuda/gpu_clock.h"

#include "preload/core/calibration.h"
#include "preload/core/clock.h"
#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

namespace {

// Time until a good anchor is renewed, and time until a failed attempt is repeated.
constexpr uint64_t kRenewNs = 250 * kNsPerMs;
constexpr uint64_t kAgainNs = 50 * kNsPerMs;
// If no attempt was good for this long, the next one is accepted unchecked, and the clock starts over.
constexpr uint64_t kForgetNs = 10 * kNsPerSecond;
// The first anchors follow each other without a pause, because the first events of a new stream are late.
constexpr uint32_t kFirst = 6;
// With an older anchor, the clocks may have drifted apart.
constexpr uint64_t kOldNs = 2 * kNsPerSecond;
// GPU time over which the rate between the clocks is measured.
constexpr double kRateNs = 4e9;

bool time_between(void* first, void* second, double* ns) {
  float ms = 0;
  if (cuda_api().event_elapsed(&ms, first, second) != 0) {
    forget_cuda_error();
    return false;
  }
  *ns = static_cast<double>(ms) * 1e6;
  return true;
}

}  // namespace

void GpuClock::set_up() {
  const CudaApi& cuda = cuda_api();
  if (cuda.event_create(&anchor_[0].event, 0) != 0 || cuda.event_create(&anchor_[1].event, 0) != 0 ||
      cuda.stream_create(&stream_, kStreamNonBlocking) != 0) {
    forget_cuda_error();
    stream_ = nullptr;
  }
}

bool GpuClock::begin_anchor(Anchor& anchor) {
  anchor.before_ns = now_ns();
  if (cuda_api().event_record(anchor.event, stream_) != 0) {
    return false;
  }
  // The driver submits the event to the GPU at the end of the call.
  anchor.host_ns = now_ns();
  return true;
}

bool GpuClock::is_good(const Anchor& anchor, double late_ns) {
  const auto passed_ns = static_cast<double>(anchor.host_ns - anchor_[current_].host_ns);
  const double allowed_ns = kJitterNs + passed_ns * (is_rate_known_ ? kRateError : kUnknownRate);
  // An early arrival means that the host read its clock late now, or that the GPU was late at the current
  // anchor. The former is more likely, unless it happens twice in a row.
  const bool seems_early = taken_ >= kFirst && late_ns < -2 * allowed_ns;
  const bool is_early = seems_early && !was_early_;
  was_early_ = is_early;
  return late_ns <= allowed_ns && !is_early;
}

void GpuClock::begin_rate() {
  rate_ = 0;
  is_rate_known_ = false;
  rate_host_ns_ = anchor_[current_].host_ns;
  rate_gpu_ns_ = 0;
}

void GpuClock::measure_rate(double gpu_ns) {
  rate_gpu_ns_ += gpu_ns;
  if (rate_gpu_ns_ > kRateNs) {
    const uint64_t host_ns = anchor_[current_].host_ns;
    rate_ = static_cast<double>(host_ns - rate_host_ns_) / rate_gpu_ns_ - 1;
    is_rate_known_ = true;
    rate_host_ns_ = host_ns;
    rate_gpu_ns_ = 0;
  }
}

bool GpuClock::take(int other) {
  Anchor& anchor = anchor_[other];
  const bool is_first = current_ < 0;
  if (is_first && first_ns_ == 0) {
    first_ns_ = anchor.before_ns;
  }
  const bool none_for_long = anchor.host_ns - (is_first ? first_ns_ : anchor_[current_].host_ns) > kForgetNs;
  if (anchor.host_ns - anchor.before_ns > kLongestRecordNs && !none_for_long) {
    return false;
  }
  const bool anew = is_first || none_for_long;
  double gpu_ns = 0;
  if (!anew) {
    const Anchor& old = anchor_[current_];
    if (!time_between(old.event, anchor.event, &gpu_ns)) {
      return false;
    }
    const double late_ns = gpu_ns * (1 + rate_) - static_cast<double>(anchor.host_ns - old.host_ns);
    if (!is_good(anchor, late_ns)) {
      return false;
    }
    if (late_ns > 0 && is_rate_known_) {
      // Half of the lateness is assumed to be jitter.
      anchor.host_ns += static_cast<uint64_t>(late_ns / 2);
    }
  }
  current_ = other;
  taken_ = anew ? 1 : taken_ + 1;
  taken_ <= kFirst ? begin_rate() : measure_rate(gpu_ns);
  return true;
}

void GpuClock::tick() {
  if (stream_ == nullptr) {
    return;
  }
  // Two anchors alternate: the current anchor stays in use until the GPU has reached the next one.
  const int other = current_ == 0 ? 1 : 0;
  if (waiting_) {
    const int state = cuda_api().event_query(anchor_[other].event);
    if (state == kCudaErrorNotReady) {
      return;
    }
    if (state != 0) {
      forget_cuda_error();
      stream_ = nullptr;
      return;
    }
    waiting_ = false;
    const uint64_t at = anchor_[other].host_ns;
    const uint64_t again = taken_ < kFirst ? 0 : kRenewNs;
    next_ns_ = at + (take(other) ? again : kAgainNs);
    return;
  }
  if (now_ns() < next_ns_) {
    return;
  }
  if (!begin_anchor(anchor_[other])) {
    forget_cuda_error();
    stream_ = nullptr;
    return;
  }
  waiting_ = true;
}

uint64_t GpuClock::host_time_of(void* event) const {
  if (stream_ == nullptr || current_ < 0) {
    return 0;
  }
  const Anchor& anchor = anchor_[current_];
  double ns = 0;
  if (!time_between(anchor.event, event, &ns)) {
    return 0;
  }
  // `ns` is negative if the event is older than the anchor.
  return anchor.host_ns + static_cast<uint64_t>(static_cast<int64_t>(ns * (1 + rate_)));
}

bool GpuClock::is_close() const {
  return stream_ != nullptr && taken_ >= kFirst && now_ns() - anchor_[current_].host_ns < kOldNs;
}

}  // namespace xpurun::preload
