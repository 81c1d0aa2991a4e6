// Reads what was collected for a dump beside the stacks into the facts: gpu.json, kernel.json,
// flight_recorder/.
#pragma once

#include "report/diagnosis/facts.h"

#include <string>
#include <vector>

namespace xpurun::report {

// `dir` is the directory of the dump. Missing files leave the facts empty; unreadable ones are named in
// `notes`. The Flight Recorder's dumps count where nothing else has told of torch's calls.
void read_dump_evidence(const std::string& dir, Facts& facts, std::vector<std::string>& notes);

}  // namespace xpurun::report
