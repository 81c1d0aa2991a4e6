// The directories that a command reads, as people name them.
#pragma once

#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// Existing paths stay; "latest" and ids of runs below xpurun-runs become paths; any other word is E-NO-RUN.
// No word: the last run.
base::Result<std::vector<std::string>> run_paths(std::vector<std::string> words);

}  // namespace xpurun::launcher
