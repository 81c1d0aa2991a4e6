// torch.profiler's traces (Kineto): Chrome's trace JSON, also with gzip.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <iosfwd>
#include <string>

namespace xpurun::report {

// The rank in "distributedInfo", which stands near the begin of the file; the host and the process in a name
// of tensorboard_trace_handler: "HOST_PID.NUMBER.pt.trace.json".
base::Result<RecordOwner> owner_of_torch_file(const std::string& path);

// Adds the complete events ("ph":"X") of the file.
base::Status add_torch_trace(Activity& out, const std::string& path);

// The JSON text, which is untrusted. An error means that nothing could be read.
base::Status parse_torch_trace(Activity& out, std::istream& json);

}  // namespace xpurun::report
