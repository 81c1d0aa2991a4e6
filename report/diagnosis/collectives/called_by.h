// Groups the calls of a communicator's ranks: equal calls share a row. Pure.
#pragma once

#include "common/model/verdict.h"
#include "report/diagnosis/collectives/call_group.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// A verdict's description of the communicator, without calls.
model::VerdictCollective communicator_of(const CallGroup& group, uint64_t sequence);

// The row of one call of one rank. Root and peer become global ranks where known.
model::CalledBy row_of(const CallGroup& group, base::Rank rank, const model::CollectiveCall& call);
// The row of ranks that have not entered the call.
model::CalledBy row_of_absent(const model::RankSet& ranks);

// Adds the row, or adds its ranks to an equal row, which then keeps the earlier of the two stages.
void add_row(std::vector<model::CalledBy>& rows, model::CalledBy row);
// The rows of all members for this call, including members that have not entered it. `by_stage`: ranks whose
// GPUs are at different stages get separate rows.
std::vector<model::CalledBy> rows_at(const CallGroup& group, uint64_t sequence, bool by_stage = false);

// Orders the rows: accused ranks first, then by size. Takes the operation from the largest row that is not
// accused.
void arrange(model::VerdictCollective& collective, const model::RankSet& accused);

}  // namespace xpurun::report
