// Which still ranks belong to one stall. Pure.
//
// A stall is one of ranks that wait for each other. Recorded calls show who waits for whom. A rank that waits
// for other ranks without a recorded call may wait for any rank, so that it is in one group with all of them.
// Ranks that wait for no other rank form a group if they became still at nearly the same time: one cause may
// have stopped them all. Ranks that wait for something outside the job may rightly be still for the whole
// job, so that they form groups among themselves, unless another rank may wait for them.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/rank_set.h"
#include "launcher/watch/wait_target.h"

#include <vector>

namespace xpurun::launcher {

struct StillRank {
  base::Rank rank = base::kNoRank;
  base::MonoNs last_progress = 0;
  base::MonoNs starved = 0;  // since then: ready to run, but without a CPU
  WaitTarget waits_for = WaitTarget::nobody;
  model::RankSet with = {};  // the other ranks of the recorded calls that the rank is in
  bool proved = false;       // the recorded calls prove that the rank cannot go on
  unsigned condition =
      0;  // whatever else a verdict depends on: whether the rank computes, whether helpers move
};

// Ranks that become still within this time of each other may have one cause.
inline constexpr base::MonoNs kNearNs = 3'000'000'000;

// The groups of these ranks, each ordered by rank, ordered by their lowest ranks.
std::vector<model::RankSet> stall_groups(const std::vector<StillRank>& ranks);

}  // namespace xpurun::launcher
