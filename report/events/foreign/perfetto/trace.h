// Perfetto traces with track events: those that xpurun wrote, with everything that the arguments of their
// slices say, and those of other programs. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <streambuf>
#include <string>
#include <vector>

namespace xpurun::report {

// The processes of the trace. Processes without rows are left out, and xpurun's drawing of a pipeline, which
// is made from the others.
base::Result<std::vector<RecordOwner>> owners_of_perfetto_trace(const std::string& path);

// Adds the process with the rank of `out`, or without a rank the one with its pid.
base::Status add_perfetto_trace(Activity& out, const std::string& path);

// The same of a text.
std::vector<RecordOwner> owners_in_perfetto_trace(std::streambuf& text);
base::Status parse_perfetto_trace(Activity& out, std::streambuf& text);

}  // namespace xpurun::report
