// Counters of the host below a rank: how much it used, and when its links, disks and GPUs had faults.
#pragma once

#include "report/events/activity.h"

#include <string>

namespace xpurun::report {

// From machine.json and gpu-health.json of the run directory, beside the first rank of the host only. Does
// nothing if there are none.
void add_host_counters(Activity& activity, const std::string& run_dir);

}  // namespace xpurun::report
