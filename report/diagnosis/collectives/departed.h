// Decides by the routine of the ranks who of them has made a wrong call, and describes the departure. Pure.
#pragma once

#include "common/model/collectives.h"
#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/departures.h"

#include <vector>

namespace xpurun::report {

// Changes who is accused: where the sides of a mismatch are no clear majority, and where ranks wait in a call
// that is too many. `groups`: of the finding's source.
void decide_by_routine(CallFinding& finding, const model::CollectiveFacts& facts,
                       const std::vector<CallGroup>& groups, const Departures& departures);

}  // namespace xpurun::report
