// The spans of one rank from all its files, with one table of names, on the clock of the analysis.
#pragma once

#include "report/events/rank_record.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct RankSpans {
  std::vector<std::string> names{""};
  std::vector<model::Span> spans;  // by begin; of spans that begin together, the longest first
  std::vector<model::LoadSample> loads;
  std::vector<model::ShortCalls> short_calls;  // of traced functions
};

inline int64_t end_of(const model::Span& span) {
  return span.begin_ns + span.duration_ns;
}

// Times that contradict themselves (files may be damaged) are left out. The calls of traced functions are
// added on request only.
enum class Functions { without, with };
RankSpans join_spans(const RankRecord& rank, Functions functions = Functions::without);

}  // namespace xpurun::report
