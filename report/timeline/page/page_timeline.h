// The last calls of all ranks for the report page: data for the picture that can be moved, and a still
// picture. Both are bounded: neighbouring short calls become one block until everything fits.
#pragma once

#include "common/model/rank_set.h"
#include "report/timeline/page/blocks.h"

#include <cstddef>
#include <string>
#include <vector>

namespace xpurun::report {

struct PageTimelineLimits {
  double seconds = 10;      // before the end of the last call
  size_t ranks = 256;       // of more ranks, those of `first` and some at equal distances
  model::RankSet first;     // for example the culprits
  size_t blocks = 120'000;  // in the data
  StillLimits still;
};

struct PageTimeline {
  std::string about;             // "The last 4.2 s of 8 ranks; ..."; empty: there is nothing to show
  std::vector<TrackKind> kinds;  // that are shown
  std::string json;              // read by templates/timeline.js
  std::string svg;
};

// What the calls of a row are, for people.
std::string word_of_row(TrackKind kind);

// Reads as many of the newest files of each rank below the directories as hold the last seconds. Ranks come
// one after the other, so memory is bounded. Collectives that had not ended when a dump was made follow the
// last calls, shortened to the time that is shown.
PageTimeline page_timeline(const std::vector<std::string>& run_dirs, const PageTimelineLimits& limits = {});

}  // namespace xpurun::report
