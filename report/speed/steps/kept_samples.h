// The latest samples of a long run, and some of the earlier ones, evenly spread over the run.
#pragma once

#include "report/speed/steps/rank_steps.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace xpurun::report {

class KeptSamples {
 public:
  // At most 2 `latest` + `earlier` samples are in memory.
  KeptSamples(size_t latest, size_t earlier) : most_latest_(latest), most_earlier_(earlier) {}

  void add(const TimedSample& sample);
  // In the order in which they were added, each once.
  std::vector<TimedSample> take() &&;

 private:
  size_t most_latest_;
  size_t most_earlier_;
  size_t added_ = 0;
  size_t stride_ = 1;
  std::vector<TimedSample> latest_;
  std::vector<std::pair<size_t, TimedSample>> earlier_;  // by number; every stride_-th
};

}  // namespace xpurun::report
