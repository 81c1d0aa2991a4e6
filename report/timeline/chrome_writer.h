// Chrome's trace JSON with the fields of torch.profiler (Kineto), one file per rank, for chrome://tracing,
// HolisticTraceAnalysis and torch's TensorBoard plugin.
#pragma once

#include "report/timeline/activity.h"
#include "report/timeline/inputs.h"
#include "report/timeline/output_file.h"

#include <cstdint>
#include <string>

namespace xpurun::report {

// "rank-3.json"; the last part differs between processes of one directory.
std::string chrome_file_name(const TraceSource& source, const Activity& activity);

// Times in the file count from `base_ns`, which should be equal for all ranks. Returns the number of slices.
// Every GPU slice gets a call on the host with the same correlation: the traced one, else one of 1 us at the
// time of the call, marked as without duration.
uint64_t write_chrome(OutputFile& out, const Activity& activity, const std::string& title, int64_t shift_ns,
                      int64_t base_ns);

}  // namespace xpurun::report
