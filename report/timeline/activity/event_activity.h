// The timed calls of event files as activity.
#pragma once

#include "common/model/timing/event_file.h"
#include "report/timeline/activity/activity.h"

namespace xpurun::report {

// Nothing of a run is later or longer; more comes from damage and would overflow sums.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;
inline constexpr int64_t kLongestNs = int64_t{30} * 24 * 3600 * 1'000'000'000;

// Adds the events of a file to those of the same rank. Times become wall times by the file's clock pairs.
void add_events(Activity& activity, const model::EventFile& file);

// Number that is equal for one collective on all ranks, and differs for others; never 0.
uint64_t meeting_of(uint64_t communicator, int size, uint64_t sequence);

// Converts CLOCK_MONOTONIC to wall time by the last pair of readings that is not later. Fastest for
// neighbouring times. Any number may come from a damaged file: the sums wrap around.
class WallClock {
 public:
  // As in an EventFile: at least one pair, in ascending order; outlives this object.
  explicit WallClock(const std::vector<model::EventFile::Clocks>& pairs) : pairs_(pairs) {}
  int64_t wall_ns(uint64_t mono_ns);

 private:
  const std::vector<model::EventFile::Clocks>& pairs_;
  size_t at_ = 0;
};

}  // namespace xpurun::report
