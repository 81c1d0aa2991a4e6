// A time line of run directories: reads the ranks twice, first for what concerns all of them (clocks, groups,
// begin), then one after the other into the trace. Memory holds two ranks at a time.
#pragma once

#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "report/events/groups.h"
#include "report/events/job_clocks.h"
#include "report/timeline/output/perfetto_writer.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace xpurun::report {

enum class TimelineFormat : uint8_t { perfetto, chrome, xpu_timer };

// A process of the trace beside the ranks. Slices in order.
struct TimelineRows {
  std::string title;
  Activity activity;
};

// Makes rows from the activities of all ranks that are shown.
class TimelineExtra {
 public:
  virtual ~TimelineExtra() = default;
  // Each rank once, in ascending order.
  virtual void add(const Activity& activity) = 0;
  // After all ranks. Times are those of the trace: with the offsets of `clocks`.
  virtual std::vector<TimelineRows> rows(const JobClocks& clocks) = 0;
};

struct TimelineOptions {
  TimelineFormat format = TimelineFormat::perfetto;
  std::string out;  // perfetto: file, "-" is standard output; others: directory
  Compression compression = Compression::none;
  std::optional<model::RankSet> ranks;
  // Seconds of the run; what lies outside is left out. `until_s` 0: to the end.
  double from_s = 0;
  double until_s = 0;
  std::set<Category> only;  // empty: all
  std::optional<GroupOrder> groups;
  bool first_group = false;        // only ranks of the first group of each type; needs groups
  TimelineExtra* extra = nullptr;  // perfetto only; outlives the call; null: none
};

struct TimelineResult {
  std::vector<std::string> files;
  uint64_t bytes = 0;
  size_t processes = 0;
  TraceCounts counts;
  uint64_t lost = 0;  // events that the ranks could not record
  JobClocks::Residual clocks;
  std::vector<GroupFinder::Family> families;  // inferred; empty if the groups were given
  std::vector<std::string>
      missing;  // what traces do not hold (coverage/trace_gaps.h), and what the format cannot
  std::vector<base::Error> problems;  // files that are left out or damaged
};

// An error means that no trace was written.
base::Result<TimelineResult> make_timeline(const std::vector<std::string>& operands,
                                           const TimelineOptions& options);

}  // namespace xpurun::report
