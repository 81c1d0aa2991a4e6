// Imported: the stacks that a reader found in a file of another tool.
#pragma once

#include "common/base/result.h"
#include "common/model/stack_snapshot.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Imported {
  std::vector<model::ProcessStacks> processes;
  std::vector<std::string> notes;  // what was left out, and why
};

// What a file's place tells about its content.
struct ImportHint {
  std::string host;                 // name of its directory, so that equal pids of two hosts stay apart
  base::Rank rank = base::kNoRank;  // "rank-3.txt", "rank3.json", "00003-00008.stacktrace"
};
ImportHint hint_of(const std::string& path);

}  // namespace xpurun::report
