// The files of a time line: which there are below the operands, and the activity of one process from them.
#pragma once

#include "common/base/result.h"
#include "report/timeline/activity.h"

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
};

struct TraceInputs {
  std::vector<TraceSource> sources;
  int64_t run_began_ns = 0;           // wall time from run.json, the earliest; 0: unknown
  std::vector<base::Error> problems;  // files that are left out
};

// `operands`: files; directories, of which every file of a known form below counts. Links in them are not
// followed: "latest" would give the events twice.
TraceInputs find_inputs(const std::vector<std::string>& operands);

// Reads the files of a process; its slices are in order. Unreadable files are left out.
Activity read_source(const TraceSource& source, std::vector<base::Error>& problems);

}  // namespace xpurun::report
