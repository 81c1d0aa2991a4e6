// Calls that all ranks have entered: how far each rank's GPU has come. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// Of several such calls: not the one that is queued behind another; then the gravest, then the oldest.
std::optional<CallFinding> find_stage_fault(const std::vector<CallGroup>& groups);

// Two communicators whose calls all ranks have launched, but not in the same order: the GPUs wait for each
// other.
std::optional<CallFinding> find_launch_order(const std::vector<CallGroup>& groups);

}  // namespace xpurun::report
