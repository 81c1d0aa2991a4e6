// The spans of one rank from all its files, with one table of names, on the clock of the analysis.
#pragma once

#include "report/speed/rank_input.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct RankSpans {
  std::vector<std::string> names{""};
  std::vector<model::Span> spans;  // by begin; of spans that begin together, the longest first
  std::vector<model::LoadSample> loads;
};

inline int64_t end_of(const model::Span& span) {
  return span.begin_ns + span.duration_ns;
}

// Times that contradict themselves (files may be damaged) are left out.
RankSpans join_spans(const RankInput& rank);

}  // namespace xpurun::report
