// ClockOffset: by how much the wall clock of another node differs from ours, from round trips. Pure. Of the
// last round trips the shortest one counts: delays only ever lengthen a trip.
#pragma once

#include "common/base/clock.h"

#include <cstdint>
#include <deque>

namespace xpurun::nodes {

class ClockOffset {
 public:
  // A ping was sent and answered at these times of our monotonic clock; the other node's wall clock was
  // `their_wall_ns` in between, ours is `our_wall_ns` at the answer.
  void add(base::MonoNs sent, base::MonoNs answered, int64_t their_wall_ns, int64_t our_wall_ns);

  bool measured() const { return !trips_.empty(); }
  size_t measurements() const { return trips_.size(); }
  // Their clock minus ours; 0 without a measurement.
  int64_t offset_ns() const;
  // The offset is wrong by at most this, half of the round trip; -1 without a measurement.
  int64_t uncertainty_ns() const;

 private:
  struct Trip {
    int64_t duration = 0;
    int64_t offset = 0;
  };
  const Trip& best() const;

  std::deque<Trip> trips_;
};

}  // namespace xpurun::nodes
