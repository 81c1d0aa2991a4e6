// Chrome's trace JSON with the fields of torch.profiler (Kineto), one file per rank, for chrome://tracing,
// HolisticTraceAnalysis and torch's TensorBoard plugin.
#pragma once

#include "report/events/activity.h"
#include "report/timeline/output/output_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

struct ChromeOptions {
  int64_t shift_ns = 0;              // added to all times
  int64_t base_ns = 0;               // times count from here; equal for all ranks
  int world_size = 0;                // number of ranks of the job
  std::vector<std::string> missing;  // what traces do not hold
};

// Returns the number of slices.
// Every GPU slice gets a call on the host with the same correlation: the traced one, else one of 1 us at the
// time of the call, marked as without duration.
uint64_t write_chrome(OutputFile& out, const Activity& activity, const std::string& title,
                      const ChromeOptions& options);

}  // namespace xpurun::report
