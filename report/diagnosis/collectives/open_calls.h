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

}  // namespace xpurun::report
