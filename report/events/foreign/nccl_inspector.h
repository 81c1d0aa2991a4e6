// Logs of NCCL's inspector plugin: a line of JSON for each collective of a process. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// The host, the process, and its rank in the largest communicator of the first lines.
base::Result<RecordOwner> owner_of_inspector_log(const std::string& path);

// Without verbose lines, a collective ends when its line was written.
base::Status add_inspector_log(Activity& out, const std::string& path);

// The text of a log; `whole`: its end is there. An error means that no line is an operation.
base::Status parse_inspector_log(Activity& out, std::string_view text, bool whole = true);

}  // namespace xpurun::report
