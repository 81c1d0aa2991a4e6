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

// Different calls under one number that have ended: the ranks went on with wrong data. The oldest that the
// lanes still have, of all communicators. Only what is never legal counts: another operation, reduction,
// root or type, and another size where no form of the operation allows it. A communicator that several
// threads of a rank use is left out, because its calls have no promised order. Also left out: communicators
// with a known mismatch, and what another source has recorded of the same ranks.
std::optional<CallFinding> find_silent_mismatch(const model::CollectiveFacts& facts,
                                                const std::vector<model::VerdictCollective>& known = {});

}  // namespace xpurun::report
