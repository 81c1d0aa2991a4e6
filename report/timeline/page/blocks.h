// Rows of the picture of calls over time: blocks of calls in order of their begins.
#pragma once

#include "common/base/ids.h"
#include "report/events/activity.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

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

// Where the blocks of a row come from.
enum class PagePart : uint8_t { timed, captured, open };

struct PageRow {
  base::Rank rank = 0;
  std::string host;
  TrackKind kind = TrackKind::compute;
  PagePart part = PagePart::timed;
  std::vector<PageBlock> blocks;
};

// A picture that does not move: one line per rank, in each column the kind that took most of the time. `rows`
// in order of the ranks.
struct StillLimits {
  size_t ranks = 64;
  size_t columns = 160;
};
std::string still_picture(const std::vector<PageRow>& rows, int64_t begin_ns, int64_t end_ns,
                          const std::string& about, const StillLimits& limits);

}  // namespace xpurun::report
