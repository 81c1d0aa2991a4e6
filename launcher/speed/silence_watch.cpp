#include "launcher/speed/silence_watch.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr uint64_t kLeastSteps = 20;  // the first steps compile kernels
// A silence lasts longer than 10 usual steps and twice the longest pause so far.
constexpr double kUsualSteps = 10;
constexpr double kUsualPauses = 2;
constexpr double kLeastS = 5;
}  // namespace

double SilenceWatch::limit_s(const Seen& seen) const {
  if (seen.steps < kLeastSteps || seen.step_s <= 0) {
    return -1;
  }
  return std::max({kLeastS, kUsualSteps * seen.step_s, kUsualPauses * longest_pause_s_});
}

std::optional<double> SilenceWatch::look(const Seen& seen, base::MonoNs now, bool recorded) {
  if (!recorded) {
    blind_until_ = now;
    reported_ = false;
    return std::nullopt;
  }
  if (seen.last_end > last_end_) {
    // Ends that came since the last look hide shorter pauses only.
    const bool counts = last_end_ > blind_until_ && seen.steps > kLeastSteps;
    longest_pause_s_ =
        counts ? std::max(longest_pause_s_, base::ns_to_s(seen.last_end - last_end_)) : longest_pause_s_;
    last_end_ = seen.last_end;
    reported_ = false;
  }
  const double limit = limit_s(seen);
  const double silent = base::ns_to_s(now - std::max(last_end_, blind_until_));
  if (reported_ || last_end_ == 0 || limit < 0 || silent < limit ||
      (hang_timeout_s_ > 0 && limit >= hang_timeout_s_)) {
    return std::nullopt;
  }
  reported_ = true;
  return silent;
}

}  // namespace xpurun::launcher
