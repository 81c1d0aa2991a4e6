// The evidence helper: collects from all sources at the same time, each in a thread of its own, and writes
// gpu.json, kernel.json, flight_recorder/ and, last, evidence.json into the dump's directory. Sources that
// exceed the time limit are abandoned, because a call into a broken driver cannot be ended.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// Never returns: ends the process, which must be the helper's own, without waiting for threads.
[[noreturn]] void run_evidence_helper(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
