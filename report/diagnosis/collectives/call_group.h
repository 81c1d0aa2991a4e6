// CallGroup: one communicator as the ranks of this node have recorded it, matched by its id. Views into
// CollectiveFacts, which must outlive the group. Pure.
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
  const model::Communicator* comm = nullptr;  // null: the rank records calls, but none on this communicator
  const model::RankCollectives* record = nullptr;  // of the rank; null if `comm` is

  uint64_t called() const { return comm != nullptr ? comm->called : 0; }
};

struct CallGroup {
  const model::Communicator* any = nullptr;  // any member's; id, name, size and source are equal in all
  std::vector<Member> members;               // members with comparable calls, ordered by rank
  model::RankSet standing;                   // in a call that cannot be compared
  model::RankSet ranks;                      // every member with a known global rank
  size_t unseen = 0;                         // members whose calls are unknown or not comparable
  model::CommunicatorKind kind = model::CommunicatorKind::unknown;

  const Member* member(base::Rank rank) const;
  // Maps a rank of the communicator to its global rank; kNoRank if unknown.
  base::Rank global_rank(int rank_in_group) const;
  uint64_t most_called() const;
  uint64_t least_called() const;
};

// The communicators recorded by this source, ordered by ranks and id. The facts must not contain processes
// that a restart has replaced.
std::vector<CallGroup> line_up(const model::CollectiveFacts& facts, model::CallSource source);

// The rank's host is in the call.
bool stands_in(const model::CollectiveCall& call);
// The record of a call; null if the rank has not made the call yet or the record was overwritten.
const model::CollectiveCall* call_at(const Member& member, uint64_t sequence);
// The same, or the shape of the call in the rank's lanes where the record was overwritten: a rank whose host
// runs ahead has called much since. The number, stage and age of a shape say nothing.
const model::CollectiveCall* shape_at(const Member& member, uint64_t sequence);
// Unknown if both are false.
bool is_done(const Member& member, uint64_t sequence);
// The rank has entered the call and is known not to have finished it.
bool is_open(const Member& member, uint64_t sequence);

// The oldest call that the rank has entered and is known not to have finished; 0 if none.
uint64_t open_call(const Member& member);

// Lanes: all that the records still have of the calls before the newest ones.

// The lists of the lane have one length, and name kinds that there are.
bool is_sound(const model::CallLane& lane);
// Of a sound lane.
const model::CallLane::Kind& kind_at(const model::CallLane& lane, size_t at);

struct CallInLane {
  const model::CallLane::Kind* kind = nullptr;  // null: the lanes do not have the call
  const model::CallLane* lane = nullptr;
  size_t at = 0;
};
// A collective, by its number in the communicator.
CallInLane find_in_lanes(const model::RankCollectives& rank, const std::string& comm, uint64_t number);

}  // namespace xpurun::report
