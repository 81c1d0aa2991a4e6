// The times of the functions that --trace-python named, by rank, and the ranks on which they take longer.
// Pure.
#pragma once

#include "common/model/timing/speed_report.h"
#include "report/events/rank_record.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

struct RankFunctions {
  base::Rank rank = base::kNoRank;
  std::map<std::string, model::FunctionOfRank> functions;  // by name
};

// A call's own time is the time outside of the spans inside of it, of functions and of stages. Short calls
// count as such of no other call.
RankFunctions functions_of(const RankRecord& rank);

// The functions that take longest first.
std::vector<model::FunctionTimes> function_times(const std::vector<RankFunctions>& ranks);

}  // namespace xpurun::report
