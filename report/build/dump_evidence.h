// Reads what was collected for a dump beside the stacks into the facts: collectives.json, gpu.json,
// kernel.json, flight_recorder/; and what was counted during the run: machine.json.
#pragma once

#include "common/model/evidence/gpu_health.h"
#include "report/diagnosis/facts.h"
#include "report/nodes/job_dump.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Of all parts of the dump. Missing files leave the facts empty; unreadable ones are named in `notes`. The
// Flight Recorder's dumps count where no other source has torch's calls.
void read_dump_evidence(const JobRuns& job, const JobDump& dump, const RankOwners& owners, Facts& facts,
                        std::vector<std::string>& notes);

// The kernel's log at the end of a job of which a process was killed without a dump, or with a dump that
// shows nothing of the other ranks. Replaces what is known of a node's log: a later one has all of it.
void read_evidence_of_end(const JobRuns& job, const JobDump& dump, Facts& facts,
                          std::vector<std::string>& notes);

// The calls of a job that ended well, as of its end.
void read_calls_at_end(const JobRuns& job, const RankOwners& owners, Facts& facts,
                       std::vector<std::string>& notes);

// gpu-health.json of the nodes of the job, in their order, each with its own clock; empty for a node without
// the file. Unreadable files are named in `notes`.
std::vector<model::GpuHealth> read_gpu_health(const JobRuns& job, std::vector<std::string>& notes);
// What was counted about the hosts of the job and their GPUs, in the order of its nodes, with times of this
// node's clock; empty for a node without the file. Unreadable files are named in `notes`.
std::vector<model::MachineHistory> read_machines(const JobRuns& job,
                                                 const std::vector<model::GpuHealth>& gpus,
                                                 std::vector<std::string>& notes);
// The calls of the moment at which a node found a silent mismatch.
void read_mismatches(const JobRuns& job, const RankOwners& owners, Facts& facts,
                     std::vector<std::string>& notes);

}  // namespace xpurun::report
