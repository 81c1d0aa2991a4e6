// The looks of the ranks at their memory, and PyTorch's snapshots, from files.
#pragma once

#include "common/model/memory/memory_look.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

struct LookFiles {
  std::vector<model::MemoryLook> looks;  // by rank, then by time
  std::vector<std::string> notes;        // unreadable files, with the reason
};

// Of run directories: ranks/*/memory-*.json, until so many bytes are read; first those that say why a job
// ended or what grew.
LookFiles read_looks(const std::vector<std::string>& run_dirs, size_t most_bytes = SIZE_MAX);

}  // namespace xpurun::report
