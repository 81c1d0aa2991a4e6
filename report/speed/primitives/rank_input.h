// The input of a speed analysis for one rank.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct RankInput {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;  // empty: the rank uses none, as far as known
  // Added to CLOCK_MONOTONIC of the rank's host: nanoseconds since 1970, by the clock of this node.
  int64_t offset_ns = 0;
  std::vector<model::SpanFile> spans;      // in the order of their numbers
  std::vector<model::SpanFile> functions;  // the calls of traced functions, in the same order
  std::vector<model::EventFile> events;
};

}  // namespace xpurun::report
