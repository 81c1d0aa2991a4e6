// The tables `captures` and `captured` of `xpurun query`.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/query/run_tables.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// `began_ns`: begin of the run, wall clock.
void add_captures(RunTables& tables, const std::vector<model::CaptureReport>& captures, int64_t began_ns);

}  // namespace xpurun::report
