// The timed calls of event files as activity.
#pragma once

#include "common/model/timing/event_file.h"
#include "report/events/activity.h"
#include "report/events/op_facts.h"

namespace xpurun::report {

// Adds the events of a file to those of the same rank. Times become wall times by the file's clock pairs.
void add_events(Activity& activity, const model::EventFile& file);

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
