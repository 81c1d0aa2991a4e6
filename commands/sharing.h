// --share group: the group of a run directory may read its report. Permissions are only added, and only to
// the run directory and to files in it: the directory of all runs belongs to a team or to the system (/tmp).
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// `files`: of the report, in `dir`. They get the group of the directory.
base::Status share_with_group(const model::RunDir& dir, const std::vector<std::string>& files);

// A warning if neither the group nor others may enter a directory above `path`; else empty.
std::string unreachable_for_group(const std::string& path);

}  // namespace xpurun::launcher
