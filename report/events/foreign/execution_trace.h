// Execution traces, whose nodes are operations and what they depend on: Chakra's (.et, protobuf) and
// PyTorch's (ExecutionTraceObserver, JSON), which has times after Chakra's chakra_trace_link has joined it
// with a trace of torch.profiler. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <istream>
#include <string>
#include <string_view>

namespace xpurun::report {

// The rank from the name: "chakra.3.et", "et_rank3.json".
base::Result<RecordOwner> owner_of_execution_trace(const std::string& path);

// Whether the first bytes of a JSON file begin an execution trace.
bool begins_execution_trace(std::string_view head);

// Nodes without a begin are placed after those on which they depend; Activity::placed says so.
base::Status add_chakra_trace(Activity& out, const std::string& path);
base::Status add_execution_trace(Activity& out, const std::string& path);

// The same of a text.
base::Status parse_chakra_trace(Activity& out, std::string_view bytes);
base::Status parse_execution_trace(Activity& out, std::istream& json);

}  // namespace xpurun::report
