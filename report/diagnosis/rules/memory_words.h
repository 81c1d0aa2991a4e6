// What is known of the memory of a job when a rank was killed.
#pragma once

#include "common/model/run_manifest.h"
#include "report/diagnosis/ends/endings.h"

#include <string>
#include <vector>

namespace xpurun::report {

// "; it had 812 MiB in RAM and was last seen in remember (oom.py:8)": of a rank that left no stack.
std::string last_seen_words(const Ending& e);
// "3.1 MiB a step, from 1.2 GiB at step 200 to 7.9 GiB at step 2300"; "40 MiB a minute, from 1.2 GiB to 7.9
// GiB within 2 h" where the steps are not known.
std::string growth_words(const model::MemoryGrowth& growth);
// What PyTorch's allocator held on the rank's GPU before the rank ran out of it, beside the other ranks; a
// growth too. Empty: unknown.
std::vector<std::string> gpu_memory_words(const model::RunManifest& run, const model::ProcessRecord& rank);
// What the job's memory control group says; whose process was killed is not known from that. Empty: unknown.
std::string group_words(const model::RunManifest& run);

}  // namespace xpurun::report
