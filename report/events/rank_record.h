// What one rank did, whichever tool recorded it: the input of all analyses.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct RankRecord {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;  // empty: the rank uses none, as far as known
  // Added to CLOCK_MONOTONIC of the rank's host: nanoseconds since 1970, by the clock of this node.
  int64_t offset_ns = 0;
  std::vector<model::SpanFile> spans;      // in the order of their numbers
  std::vector<model::SpanFile> functions;  // the calls of traced functions, in the same order
  std::vector<model::EventFile> events;
  bool whole = false;  // every call in the time of the record is in it: nothing was sampled
};

// Of the first file; null: the record is empty.
inline const model::EventFileHeader* header_of(const RankRecord& record) {
  return !record.spans.empty()       ? &record.spans.front().header
         : !record.functions.empty() ? &record.functions.front().header
         : !record.events.empty()    ? &record.events.front().header
                                     : nullptr;
}

}  // namespace xpurun::report
