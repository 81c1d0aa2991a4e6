// For calls that all ranks have entered: the stage that each rank's GPU has reached. Pure.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/collectives/call_group.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// Among several such calls, prefers one that is not queued behind another; then the gravest fault, then the
// oldest call.
std::optional<CallFinding> find_stage_fault(const std::vector<CallGroup>& groups);

// Two communicators whose calls all ranks have launched, but in different orders: the GPUs wait for each
// other.
std::optional<CallFinding> find_launch_order(const std::vector<CallGroup>& groups);
// The same by torch's record, which does not know the GPUs, but has the exact order: of the newest calls that
// all members have made and that are not known to have ended.
std::optional<CallFinding> find_call_order(const std::vector<CallGroup>& torch);
// Two ranks that have launched a receive from each other before their sends: their GPUs wait for each other.
std::optional<CallFinding> find_message_order(const std::vector<CallGroup>& torch);

}  // namespace xpurun::report
