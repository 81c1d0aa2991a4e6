// Which ranks are in one call by the records, without a judgement: the supervisor groups still ranks by it.
// Pure.
#pragma once

#include "common/model/collectives.h"
#include "common/model/rank_set.h"

#include <map>

namespace xpurun::report {

// For each rank that has entered a call and not left it: all ranks of that call, itself included. Empty of
// ranks whose records do not show this, such as those in calls of C++ code.
std::map<base::Rank, model::RankSet> ranks_of_open_calls(const model::CollectiveFacts& facts);

// Ranks that can never go on, by the records of torch alone: different calls under one number, in which all
// these ranks stand; a circle of waits; ranks that wait for a rank of `gone`, whose process has ended, or for
// such a rank.
model::RankSet proved_to_stand(const model::CollectiveFacts& facts, const model::RankSet& gone);

}  // namespace xpurun::report
