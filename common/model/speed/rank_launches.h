// How long the work of a rank waits in its GPU's queue: from the call on the host to the start on the GPU, of
// the calls whose begin on the GPU was measured. A part of model::SpeedReport; times are seconds.
#pragma once

#include "common/base/ids.h"

#include <cstdint>

namespace xpurun::model {

struct RankLaunches {
  base::Rank rank = base::kNoRank;
  int64_t calls = 0;
  double mean_s = 0;
  double median_s = 0;
  double p99_s = 0;
  // Far shorter than on the other ranks: the queue is empty, the GPU waits for the host.
  bool starved = false;
};

}  // namespace xpurun::model
