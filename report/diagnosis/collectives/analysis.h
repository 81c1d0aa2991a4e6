// What the recorded calls of all ranks say of a hang: who has called something else, who has not entered a
// call, whose GPU has not started or finished it, and which ranks wait for each other in a circle. Pure.
#pragma once

#include "common/model/collectives.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <optional>

namespace xpurun::report {

// A cause that lies in how the ranks have called. Prefers what torch has recorded, which knows the program's
// lines; NCCL's record adds what has become of a call on the GPU. Nothing if the record shows no open call
// that explains a hang.
std::optional<CallFinding> find_call_fault(const model::CollectiveFacts& facts);

// The call in which the host of the rank stands at this moment, null if in none or unknown.
const model::CollectiveCall* call_of_host(const model::CollectiveFacts& facts, base::Rank rank);
// The record shows a call of the rank that has not finished.
bool has_open_call(const model::CollectiveFacts& facts, base::Rank rank);
// NCCL's record shows that the GPU has finished every call of the rank: if the rank waits for its GPU, it
// waits for work of its own.
bool gpu_has_finished_calls(const model::CollectiveFacts& facts, base::Rank rank);
// NCCL's record shows messages of the process, and that all have ended.
bool all_messages_ended(const model::RankCollectives& calls);

}  // namespace xpurun::report
