// SilenceWatch: reports when no rank has ended a step for far longer than steps usually take. A pause no
// longer than twice an earlier one, for example for a checkpoint, is not a silence. Pure; the caller has the
// clock.
#pragma once

#include "common/base/clock.h"

#include <cstdint>
#include <optional>

namespace xpurun::launcher {

class SilenceWatch {
 public:
  // `hang_timeout_s`: a silence that would be reported later than this is not reported; 0: no limit.
  explicit SilenceWatch(double hang_timeout_s) : hang_timeout_s_(hang_timeout_s) {}

  struct Seen {
    uint64_t steps = 0;         // of the rank with most steps
    double step_s = -1;         // usual duration; negative: not known
    base::MonoNs last_end = 0;  // of the latest step of any rank
  };
  // The length of the silence so far in seconds, once per silence. Call about once a second. `recorded`:
  // whether the ends of steps are being recorded.
  std::optional<double> look(const Seen& seen, base::MonoNs now, bool recorded);

  // The length in seconds from which a silence is reported; negative: not known yet.
  double limit_s(const Seen& seen) const;

 private:
  double hang_timeout_s_;
  base::MonoNs last_end_ = 0;
  base::MonoNs blind_until_ = 0;  // ends of steps were not seen until then
  double longest_pause_s_ = 0;
  bool reported_ = false;  // the current silence was reported
};

}  // namespace xpurun::launcher
