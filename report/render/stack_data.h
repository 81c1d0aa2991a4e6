// The distinct stacks of one or several dumps as columns of JSON, from which the page draws every view of
// them. Schema "xpurun.stackdata/1", docs/report.md.
#pragma once

#include "common/model/rank_set.h"
#include "report/tree/stack_forest.h"

#include <string>
#include <vector>

namespace xpurun::report {

inline constexpr std::string_view kStackDataSchema = "xpurun.stackdata/1";

// The stacks of one dump.
struct DumpedStacks {
  std::string name;  // "dumps/1-hang"
  const StackForest* forest = nullptr;
};

struct StackData {
  std::string json;
  size_t left_out = 0;  // stacks that did not fit; those of the ranks' main threads go first
};

// The first dump is the one that is shown first. At most `max_nodes` frames in all trees together.
StackData stack_data(const std::vector<DumpedStacks>& moments, const model::RankSet& culprits,
                     size_t max_nodes);

}  // namespace xpurun::report
