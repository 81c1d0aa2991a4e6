// Imported: the stacks that a reader found in a file of another tool.
#pragma once

#include "common/base/result.h"
#include "common/model/stack_snapshot.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Imported {
  std::vector<model::ProcessStacks> processes;
  std::vector<std::string> notes;  // omitted parts, with the reason
};

// Facts that follow from a file's path.
struct ImportHint {
  std::string host;                 // name of the file's directory; keeps equal pids of two hosts apart
  base::Rank rank = base::kNoRank;  // "rank-3.txt", "rank3.json", "00003-00008.stacktrace"
};
ImportHint hint_of(const std::string& path);

}  // namespace xpurun::report
