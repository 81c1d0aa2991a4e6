// Words for what ranks called.
#pragma once

#include "report/diagnosis/collectives/call_finding.h"
#include "report/diagnosis/wording.h"

#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

// "all_reduce of 4096 float32", "broadcast of 4 int64 from root 0", "send of 8 float32 to rank 1"
std::string call_text(const model::CalledBy& row);
// call_text() with the line: "all_reduce of 4096 float32 (train.py:33)"
std::string call_at_line(const model::CalledBy& row);
// Both calls without the details that they share, and, if their operations differ, without the details of the
// tensors: what stays is what a reader has to compare.
std::pair<model::CalledBy, model::CalledBy> differing_parts(model::CalledBy a, model::CalledBy b);
// A send and the recv that its peer made.
bool are_ends_of_a_message(const model::CalledBy& a, const model::CalledBy& b);
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
