// Explains a hang by the recorded calls of all ranks: a rank that called something else, a rank that has not
// entered a call, a rank whose GPU has not started or finished it, or ranks that wait for each other in a
// circle. Pure.
#pragma once

#include "common/model/collectives.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// The cause of a hang that lies in the ranks' calls. Prefers torch's record, which knows the program's lines;
// NCCL's record adds the progress of a call on the GPU. Empty if the record shows no open call that explains
// a hang.
std::optional<CallFinding> find_call_fault(const model::CollectiveFacts& facts);

// The silent mismatch that explains an open fault: NCCL may let different calls meet, and hang in a later
// one. Else the open fault.
std::optional<CallFinding> from_origin(std::optional<CallFinding> open,
                                       const std::optional<CallFinding>& silent);

// What a failure says about calls.
struct FailedCalls {
  CallFinding finding;
  model::RankSet late;  // made the call only after it had failed in the rank that failed first
  double late_s = 0;    // the shortest time between, in seconds
};

// The same at the end of a job: calls that raised in these ranks count as waits that the backend gave up, and
// a rank that came later as one that had not come. `first`: the rank that failed first. Empty if no such call
// is known.
std::optional<FailedCalls> find_fault_of_failure(model::CollectiveFacts facts, const model::RankSet& failed,
                                                 base::Rank first);

// The call that the rank's host is in at this moment; null if none or unknown.
const model::CollectiveCall* call_of_host(const model::CollectiveFacts& facts, base::Rank rank);
// Of a rank that has ended in a call of MPI: the program's line of that call, as recorded; empty if unknown.
model::CodeLocation place_of_last_call(const model::CollectiveFacts& facts, base::Rank rank);
// call_of_host() from the records of this rank alone, for callers that ask for every rank.
const model::CollectiveCall* call_of_host(const std::vector<const model::RankCollectives*>& of_rank);
// MPI's calls of the rank are recorded.
bool calls_mpi(const model::CollectiveFacts& facts, base::Rank rank);
bool calls_mpi(const model::RankCollectives& calls);
// Seconds since the rank's host made the oldest call that its GPU has not finished, by NCCL's record; 0 if
// none.
double gpu_waits_since(const std::vector<const model::RankCollectives*>& of_rank);
// The record shows an unfinished call of the rank.
bool has_open_call(const model::CollectiveFacts& facts, base::Rank rank);
// NCCL's record shows that the GPU has finished every call of the rank. A rank that still waits for its GPU
// then waits for its own work.
bool gpu_has_finished_calls(const model::CollectiveFacts& facts, base::Rank rank);
// NCCL's record shows messages of the process, and all of them have ended.
bool all_messages_ended(const model::RankCollectives& calls);

}  // namespace xpurun::report
