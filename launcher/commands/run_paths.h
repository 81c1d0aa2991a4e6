// The directories that a command reads, as people name them.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// Existing paths stay; "latest" and ids of runs below xpurun-runs become paths; any other word stays, for the
// reader to complain about. No word: the last run.
std::vector<std::string> run_paths(std::vector<std::string> words);

}  // namespace xpurun::launcher
