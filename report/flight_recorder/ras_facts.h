// The collective facts of a job from what NCCL's RAS says.
#pragma once

#include "report/flight_recorder/dump_files.h"
#include "report/flight_recorder/nccl_ras.h"

namespace xpurun::report {

// Ranks are those of the largest communicator. Ranks without an answer are `silent`.
FlightFacts facts_of_ras(const RasStatus& status);

}  // namespace xpurun::report
