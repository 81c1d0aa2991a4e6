// The runs of several nodes as one RunManifest: processes, deaths, exceptions, crashes, stalls and dumps of
// all nodes, with times on the clock of this node, counted from the begin of its run. Pure.
#pragma once

#include "report/nodes/job_runs.h"

#include <string>
#include <vector>

namespace xpurun::report {

// By node: seconds to add to its times since the begin of its run.
std::vector<double> shifts_of(const JobRuns& job);

// Of one node: its manifest as it is.
model::RunManifest merge_runs(const JobRuns& job, const RankOwners& owners);

}  // namespace xpurun::report
