// CallGroup: one communicator as the ranks of this node have recorded it, lined up by its id. Views into
// CollectiveFacts, which must outlive them. Pure.
#pragma once

#include "common/model/collectives.h"
#include "common/model/rank_set.h"
#include "common/model/verdict.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

struct Member {
  base::Rank rank = base::kNoRank;            // global
  const model::Communicator* comm = nullptr;  // null: the rank records its calls and has none here

  uint64_t called() const { return comm != nullptr ? comm->called : 0; }
};

struct CallGroup {
  const model::Communicator* any = nullptr;  // of one member: id, name, size and source are the same in all
  std::vector<Member> members;               // those whose calls can be compared, by rank
  model::RankSet ranks;                      // every member whose global rank is known
  size_t unseen = 0;                         // members whose calls are not known or cannot be compared
  model::CommunicatorKind kind = model::CommunicatorKind::unknown;

  const Member* member(base::Rank rank) const;
  // The global rank of a rank of the communicator, kNoRank if unknown.
  base::Rank global_rank(int rank_in_group) const;
  uint64_t most_called() const;
  uint64_t least_called() const;
};

// The communicators that this source has recorded, ordered by their ranks and id. A process that a restart
// has replaced must not be in the facts any more.
std::vector<CallGroup> line_up(const model::CollectiveFacts& facts, model::CallSource source);

// The record of a call, null if the rank has not called so far or the record is gone.
const model::CollectiveCall* call_at(const Member& member, uint64_t sequence);
// Both false: not known.
bool is_done(const Member& member, uint64_t sequence);
bool is_open(const Member& member, uint64_t sequence);

// The oldest call that the rank has entered and is known not to have finished; 0 if there is none.
uint64_t open_call(const Member& member);

}  // namespace xpurun::report
