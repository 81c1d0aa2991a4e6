// Ranks that called something else under the same number. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// The oldest difference of each communicator counts, because it causes the later ones; of several
// communicators the one whose ranks have waited longest.
std::optional<CallFinding> find_mismatch(const std::vector<CallGroup>& groups);

}  // namespace xpurun::report
