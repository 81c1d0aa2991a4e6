// The files of a time line: which there are below the operands, and the activity of one process from them.
#pragma once

#include "common/base/result.h"
#include "report/timeline/activity/activity.h"
#include "report/timeline/open_calls.h"

#include <array>
#include <compare>
#include <string>
#include <vector>

namespace xpurun::report {

enum class TraceFormat : uint8_t { xpurun, xpu_timer, torch_profiler };

}  // namespace xpurun::report

namespace xpurun::model {
template <>
inline constexpr std::array<std::string_view, 3> kNames<report::TraceFormat>{"xpurun", "xpu_timer",
                                                                             "torch.profiler"};
}

namespace xpurun::report {

// One process and its files. Ranks in ascending order, then processes without a rank.
struct TraceSource {
  base::Rank rank = base::kNoRank;
  TraceFormat format = TraceFormat::xpurun;
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

// `operands`: files; directories, of which every file of a known form below counts. Links in them are not
// followed: "latest" would give the events twice.
TraceInputs find_inputs(const std::vector<std::string>& operands);

// For numbers of calls that have ended.
void leave_out_open_calls(TraceInputs& inputs);

// The wall time at which an event file or a span file was begun: none of its calls has ended before.
base::Result<int64_t> file_begin_ns(const std::string& path);

// Reads the files of a process; its slices are in order. Unreadable files are left out.
Activity read_source(const TraceSource& source, std::vector<base::Error>& problems);

}  // namespace xpurun::report
