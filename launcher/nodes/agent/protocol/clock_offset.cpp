#include "launcher/nodes/agent/protocol/clock_offset.h"

#include <algorithm>

namespace xpurun::nodes {

namespace {

// Clocks drift by some microseconds per second: old measurements become useless.
constexpr size_t kTrips = 8;
// The offset from a slower answer is too uncertain.
constexpr int64_t kLongestTripNs = 5'000'000'000;
// A clock that is wrong by more than a century is not believed; differences stay far from overflow.
constexpr int64_t kFarthestNs = int64_t{100} * 366 * 86'400 * 1'000'000'000;

}  // namespace

void ClockOffset::add(base::MonoNs sent, base::MonoNs answered, int64_t their_wall_ns, int64_t our_wall_ns) {
  const bool in_order = sent > 0 && sent <= answered && answered - sent <= kLongestTripNs;
  if (!in_order || their_wall_ns < 0 || their_wall_ns > kFarthestNs) {
    return;
  }
  const int64_t duration = answered - sent;
  // Cristian's algorithm: the answer was made at some moment of the round trip, so the middle is wrong by at
  // most half of the trip, whatever the delays of the two directions.
  trips_.push_back({.duration = duration, .offset = their_wall_ns - (our_wall_ns - duration / 2)});
  if (trips_.size() > kTrips) {
    trips_.pop_front();
  }
}

const ClockOffset::Trip& ClockOffset::best() const {
  return *std::min_element(trips_.begin(), trips_.end(),
                           [](const Trip& a, const Trip& b) { return a.duration < b.duration; });
}

int64_t ClockOffset::offset_ns() const {
  return trips_.empty() ? 0 : best().offset;
}

int64_t ClockOffset::uncertainty_ns() const {
  return trips_.empty() ? -1 : best().duration / 2 + 1;
}

}  // namespace xpurun::nodes
