// The result of a job for run.json and for xpurun's caller.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/ending/job_state.h"
#include "launcher/processes/process_table.h"

namespace xpurun::launcher {

// Sets outcome, exit status and processes. `interrupted`: the user has sent a signal that ends jobs. A known
// outcome is kept.
void complete_manifest(model::RunManifest& run, const ProcessTable& table, const JobState& job,
                       model::Interrupt interrupt);

// xpurun's exit status.
int exit_status_of(const model::RunManifest& run, const ProcessTable& table, const JobState& job);

// The signal that ended the root-cause rank, that is, the rank that failed first by itself. 0 if there is
// none, or if the rank exited with a status. A rank that is held for its dump counts from its crash, not from
// its death.
int root_cause_signal(const std::vector<model::ProcessRecord>& processes,
                      const std::vector<model::CrashNotice>& crashes);

}  // namespace xpurun::launcher
