// The files of a time line: which there are below the operands, and the activity of one process from them.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/files/importers.h"
#include "report/events/rank_record.h"
#include "report/timeline/open_calls.h"

#include <string>
#include <vector>

namespace xpurun::report {

// One process and its files. Ranks in ascending order, then processes without a rank.
struct TraceSource {
  base::Rank rank = base::kNoRank;
  const Importer* importer = nullptr;
  std::string host;
  base::Pid pid = 0;  // of a process without a rank; ranks that are started again stay one row
  std::vector<std::string> files;
  std::vector<OpenCall> open;  // of the dumps of its run
  // Span files of the run of a trace or capture: what lies in the time of `files` counts.
  std::vector<std::string> beside;
};

struct TraceInputs {
  std::vector<TraceSource> sources;
  int64_t run_began_ns = 0;           // wall time from run.json, the earliest; 0: unknown
  int world_size = 0;                 // from run.json; 0: unknown
  std::vector<std::string> traces;    // paths of trace.json
  std::vector<base::Error> problems;  // files that are left out
};

// Whether an operand without a file of calls is a problem; a run may have only ends, exceptions and stalls.
enum class WithoutFiles { problem, fine_of_a_run };

// `operands`: files; directories, of which every file of a known form below counts. Links in them are not
// followed: "latest" would give the events twice.
TraceInputs find_inputs(const std::vector<std::string>& operands,
                        WithoutFiles without = WithoutFiles::problem);

// For numbers of calls that have ended.
void leave_out_open_calls(TraceInputs& inputs);

// Reads the files of a process; its slices are in order. Unreadable files are left out. `record` may be null:
// it gets what the analyses take, without open calls, and without what lies beside a trace.
Activity read_source(const TraceSource& source, std::vector<base::Error>& problems,
                     RankRecord* record = nullptr);

}  // namespace xpurun::report
