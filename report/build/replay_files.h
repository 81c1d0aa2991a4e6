// Reads the event files of a run, of all its nodes, for a replay. One rank is in memory at a time.
#pragma once

#include "common/model/rank_set.h"
#include "report/nodes/job_runs.h"
#include "report/replay/run_operations.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct OperationsOfRun {
  RunOperations operations;
  std::vector<std::string> notes;  // unreadable files
};

// Only these ranks; empty: all.
OperationsOfRun read_run_operations(const JobRuns& job, const model::RankSet& ranks);

}  // namespace xpurun::report
