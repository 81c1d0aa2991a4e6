// Clocks of hosts from the order of the jobs: a micro-batch goes forward through the stages and backward
// again, so a job cannot begin before its neighbour's job of the same micro-batch has ended. Pure.
#pragma once

#include "common/model/speed/pipeline.h"

#include <cstdint>
#include <map>
#include <string>

namespace xpurun::report {

// Nanoseconds to add to the times of each host whose jobs contradict the order. The forward jobs give the
// smallest possible difference of two clocks, the backward jobs the largest; the middle is taken. Hosts whose
// jobs contradict each other with every difference are left as they are.
std::map<std::string, int64_t> clock_corrections(const model::PipelineReport& report);

}  // namespace xpurun::report
