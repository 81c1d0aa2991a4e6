// CaptureBudget: how often captures begin by themselves. The first ones at once, the others after pauses,
// each twice as long as the one before: an alarm by chance does not use up those of a later slowdown. Pure.
#pragma once

#include "common/base/clock.h"

#include <algorithm>

namespace xpurun::launcher {

class CaptureBudget {
 public:
  static constexpr int kAtOnce = 3;
  static constexpr double kFirstPauseS = 300;

  bool allows(base::MonoNs now) const { return used_ < kAtOnce || now >= next_; }
  void use(base::MonoNs now) {
    constexpr int kMostDoublings = 12;
    const int doublings = std::clamp(++used_ - kAtOnce, 0, kMostDoublings);
    next_ = now + base::s_to_ns(kFirstPauseS * static_cast<double>(1 << doublings));
  }

 private:
  int used_ = 0;
  base::MonoNs next_ = 0;
};

}  // namespace xpurun::launcher
