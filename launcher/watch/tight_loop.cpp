#include "launcher/watch/tight_loop.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

// Of the time, on a CPU or ready to run. A loop with a sleep polls or works, and is known by other signs.
constexpr double kNeverSleeps = 0.8;
// The kernel counts a thread's time in the queue only once the thread runs again, and a sample is taken a
// little later than its time says.
constexpr base::MonoNs kLate = 60'000'000;
constexpr size_t kSamples = 8;

}  // namespace

bool TightLoop::never_slept(const Time& now) const {
  if (times_.empty()) {
    return true;
  }
  const Time& first = times_.front();
  const double ran = static_cast<double>(now.ran_ns - first.ran_ns) + kLate;
  return ran >= kNeverSleeps * static_cast<double>(now.at - first.at);
}

bool TightLoop::moves(base::MonoNs now, const stackdump::Position& position,
                      const base::ProcRunTime& run_time) {
  const Time time{.at = now, .ran_ns = run_time.cpu_ns + run_time.queue_ns};
  const bool changed = position.fingerprint != fingerprint_;
  const bool circles = position.has_python && position.around == around_ && never_slept(time);
  const bool moved = changed && !(circles && position.instruction <= furthest_);
  circling_ = circles && (circling_ || (changed && !moved));
  furthest_ = circles ? std::max(furthest_, position.instruction) : position.instruction;
  fingerprint_ = position.fingerprint;
  around_ = position.around;
  if (!circles) {
    times_.clear();
  }
  times_.push_back(time);
  if (times_.size() > kSamples) {
    times_.pop_front();
  }
  return moved;
}

}  // namespace xpurun::launcher
