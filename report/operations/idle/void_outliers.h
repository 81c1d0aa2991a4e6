// Which ranks' GPUs had nothing to do for far longer than those of the other ranks: FLARE's void percentage,
// compared between ranks of one role. Pure.
#pragma once

#include "common/model/speed/idle_time.h"
#include "report/speed/roles/rank_roles.h"

namespace xpurun::report {

// Sets `others_void_share` and `outlier`. A rank stands out if its GPU was idle for 5 % more of the time than
// the median of the others, and by four robust standard deviations of the others, and if fewer than half of
// the ranks do so; of two ranks, one may. Idle time in collectives is none: the others wait there for such a
// rank.
void mark_void_outliers(model::IdleTime& idle, const RankRoles& roles);

}  // namespace xpurun::report
