// Finds ranks that made a different call under the same sequence number. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// Of each communicator the oldest difference counts, because it causes the later ones. Among communicators
// the one whose ranks have waited longest counts.
std::optional<CallFinding> find_mismatch(const std::vector<CallGroup>& groups);

}  // namespace xpurun::report
