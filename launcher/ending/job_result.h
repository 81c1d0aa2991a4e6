// The result of a job for run.json and for the caller of xpurun, from what is known at the end.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/ending/job_state.h"
#include "launcher/processes/process_table.h"

namespace xpurun::launcher {

// Outcome, exit status and processes. `interrupted`: the user has sent a signal that ends jobs. An outcome
// that is known already stays.
void complete_manifest(model::RunManifest& run, const ProcessTable& table, const JobState& job,
                       bool interrupted);

// What xpurun returns.
int exit_status_of(const model::RunManifest& run, const ProcessTable& table, const JobState& job);

// The signal that ended the root-cause rank: the rank that failed first by itself. 0 if no rank did, or if
// the rank exited with a status. A rank that is held for its dump counts from its crash, not from its death.
int root_cause_signal(const std::vector<model::ProcessRecord>& processes,
                      const std::vector<model::CrashNotice>& crashes);

}  // namespace xpurun::launcher
