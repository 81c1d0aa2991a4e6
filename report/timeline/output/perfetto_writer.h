// Perfetto's protobuf trace, written rank by rank: only the rank at hand is in memory. ui.perfetto.dev and
// trace_processor read the result, also with gzip.
#pragma once

#include "report/events/activity.h"
#include "report/timeline/output/output_file.h"

#include <cstdint>
#include <string>

namespace xpurun::report {

// What the writer made, for the summary and for tests.
struct TraceCounts {
  uint64_t slices = 0;
  uint64_t flows = 0;  // slices with at least one flow
  uint64_t tracks = 0;
  uint64_t samples = 0;  // of counters
  uint64_t trimmed = 0;  // slices shown shorter because their track's next one begins up to 2 us earlier
};

class PerfettoWriter {
 public:
  // `out` outlives the writer. `begin_ns`: wall time at which the trace begins, for its clocks.
  PerfettoWriter(OutputFile& out, int64_t begin_ns);

  // One process of the trace. Slices in order (put_in_order). `title`: "rank 3, node7, GPU 3". Ranks appear
  // in the order of the calls. `shift_ns` is added to all times.
  void write(const Activity& activity, const std::string& title, int64_t shift_ns);

  // What traces do not hold, as metadata "xpurun-missing-1", ...
  void write_missing(const std::vector<std::string>& lines);

  const TraceCounts& counts() const { return counts_; }

 private:
  class Process;

  OutputFile& out_;
  uint32_t processes_ = 0;
  uint64_t uuids_ = 0;  // the last number of a process or a track
  TraceCounts counts_;
};

}  // namespace xpurun::report
