// What is known of the memory of a job when a rank was killed.
#pragma once

#include "common/model/run_manifest.h"
#include "report/diagnosis/ends/endings.h"

#include <string>

namespace xpurun::report {

// "; it had 812 MiB in RAM and was last seen in remember (oom.py:8)": of a rank that left no stack.
std::string last_seen_words(const Ending& e);
// What the job's memory control group says; whose process was killed is not known from that. Empty: unknown.
std::string group_words(const model::RunManifest& run);

}  // namespace xpurun::report
