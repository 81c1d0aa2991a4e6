#include "preload/timing/budget.h"

namespace xpurun::preload {

uint32_t Budget::update(uint64_t now_ns, uint64_t own_ns, uint32_t ppm) {
  if (window_began_ns_ == 0) {
    window_began_ns_ = now_ns;
    own_at_begin_ns_ = own_ns;
    return period_;
  }
  const uint64_t elapsed = now_ns - window_began_ns_;
  if (elapsed < kWindowNs) {
    return period_;
  }
  const double cost = static_cast<double>(own_ns - own_at_begin_ns_) / static_cast<double>(elapsed) * 1e6;
  if (cost > ppm && period_ < kLongest) {
    period_ *= 2;
  } else if (cost < ppm / 2.0 && period_ > 1) {
    period_ /= 2;
  }
  window_began_ns_ = now_ns;
  own_at_begin_ns_ = own_ns;
  return period_;
}

}  // namespace xpurun::preload
