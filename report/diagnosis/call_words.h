// Words for what ranks called.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/wording.h"

#include <string>
#include <vector>

namespace xpurun::report {

// "all_reduce of 4096 float32", "broadcast of 4 int64 from root 0", "send of 8 float32 to rank 1"
std::string call_text(const model::CalledBy& row);
// call_text() with the line: "all_reduce of 4096 float32 (train.py:33)"
std::string call_at_line(const model::CalledBy& row);
// 'group "default"', or the group's ranks if it has no name.
std::string group_text(const model::VerdictCollective& collective);
// 'call 29 of group "default"'
std::string call_number(const model::VerdictCollective& collective);

// The ranks are in a call, which may have no number: a receive from any rank, or with any tag.
bool made_a_call(const model::CalledBy& row);
// Evidence lines, one per row.
std::vector<std::string> call_evidence(const model::VerdictCollective& collective);

// The sentence about the calls, without the duration.
std::string fault_text(const CallFinding& finding, const RankNamer& names);

}  // namespace xpurun::report
