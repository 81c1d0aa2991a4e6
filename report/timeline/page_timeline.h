// The last calls of all ranks for the report page: data for the picture that can be moved, and a still
// picture. Both are bounded: neighbouring short calls become one block until everything fits.
#pragma once

#include "report/timeline/activity.h"

#include <cstddef>
#include <string>
#include <vector>

namespace xpurun::report {

struct PageTimelineLimits {
  double seconds = 10;      // before the end of the last call
  size_t blocks = 120'000;  // in the data
  size_t still_ranks = 64;  // rows of the still picture
  size_t still_columns = 160;
};

struct PageTimeline {
  std::string about;  // "The last 4.2 s of 8 ranks, 61 calls a block"; empty: there is nothing to show
  std::string json;   // read by templates/timeline.js
  std::string svg;
};

// Reads the newest files of each rank below the directories. Ranks come one after the other, so memory is
// bounded.
PageTimeline page_timeline(const std::vector<std::string>& run_dirs, const PageTimelineLimits& limits = {});

// One row of the picture: blocks of calls in order of their begins.
struct PageBlock {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t name = 0;  // index into the names
  uint32_t calls = 1;
  uint64_t meeting = 0;  // of a single collective
};
// Merges blocks with less than `resolution_ns` between their begins. A block is named after the longest call
// in it.
std::vector<PageBlock> merge_blocks(const std::vector<PageBlock>& blocks, int64_t resolution_ns);

}  // namespace xpurun::report
