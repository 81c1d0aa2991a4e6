// The tables `idle` and `gaps` of `xpurun query`.
#pragma once

#include "common/model/speed/idle_time.h"
#include "report/query/run_tables.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

// `began_ns`: begin of the run, wall clock.
void add_idle(RunTables& tables, const std::vector<model::IdleTime>& records, int64_t began_ns);

}  // namespace xpurun::report
