// A monotonic clock that only the test advances: FakeClock::set_s(3); Progress("x", 2, FakeClock::read). One
// per
// process, because it replaces a plain function.
#pragma once

#include "common/base/clock.h"

namespace xpurun::testing {

class FakeClock {
 public:
  static base::MonoNs read() { return now_; }
  static void set_s(double s) { now_ = base::s_to_ns(s); }
  static void advance_s(double s) { now_ += base::s_to_ns(s); }

 private:
  static inline base::MonoNs now_ = 0;
};

}  // namespace xpurun::testing
