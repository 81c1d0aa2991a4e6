// SQLite exports of Nsight Systems (`nsys export --type sqlite`): kernels, copies, memsets, CUDA calls, NVTX
// ranges. The file is untrusted and opened read-only.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <string>

namespace xpurun::report {

// The rank in the name of the file: "rank-3.sqlite", "report_rank3.sqlite"; else of no rank.
base::Result<RecordOwner> owner_of_nsys_export(const std::string& path);

base::Status add_nsys_export(Activity& out, const std::string& path);

}  // namespace xpurun::report
