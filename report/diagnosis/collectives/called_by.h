// Puts the calls of a communicator's ranks together: equal calls in one row. Pure.
#pragma once

#include "common/model/verdict.h"
#include "report/diagnosis/collectives/call_group.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// The communicator of a verdict, without calls.
model::VerdictCollective communicator_of(const CallGroup& group, uint64_t sequence);

// One call of one rank. Root and peer become global ranks where these are known.
model::CalledBy row_of(const CallGroup& group, base::Rank rank, const model::CollectiveCall& call);
// A rank that has not entered the call.
model::CalledBy row_of_absent(const model::RankSet& ranks);

// Adds the row, or its ranks to an equal row; that one's stage becomes the earlier of both.
void add_row(std::vector<model::CalledBy>& rows, model::CalledBy row);
// All members at this call, those that have not entered it too. `by_stage`: ranks whose GPUs have come as far
// have rows of their own.
std::vector<model::CalledBy> rows_at(const CallGroup& group, uint64_t sequence, bool by_stage = false);

// Rows of accused ranks first, then the larger ones; sets the operation from the largest row that is not
// accused.
void arrange(model::VerdictCollective& collective, const model::RankSet& accused);

}  // namespace xpurun::report
