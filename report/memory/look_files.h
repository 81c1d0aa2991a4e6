// The looks of the ranks at their memory, and PyTorch's snapshots, from files.
#pragma once

#include "common/model/memory/memory_look.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct LookFiles {
  std::vector<model::MemoryLook> looks;  // by rank, then by time
  std::vector<std::string> notes;        // unreadable files, with the reason
};

// Of run directories: ranks/*/memory-*.json.
LookFiles read_looks(const std::vector<std::string>& run_dirs);

}  // namespace xpurun::report
