// How much launched work had not begun, over time. Pure.
#pragma once

#include "report/gpu_work/recorded_work.h"

#include <cstddef>
#include <vector>

namespace xpurun::report {

struct QueueChange {
  int64_t at = 0;
  int64_t length = 0;  // from then on
};

// The length from `from` to `until`, each change; the first one is at `from`.
std::vector<QueueChange> queue_changes(const RecordedWork& work, int64_t from, int64_t until);

struct QueueTimes {
  double mean = 0;
  int64_t median = 0;
  int64_t p99 = 0;
  int64_t most = 0;
};
// Weighted by time, up to `until`.
QueueTimes queue_times(const std::vector<QueueChange>& changes, int64_t until);

// At most `most` changes, about: of the changes of a short time, the longest queue.
std::vector<QueueChange> thinned(const std::vector<QueueChange>& changes, size_t most);

}  // namespace xpurun::report
