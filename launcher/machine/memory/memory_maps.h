// What /proc/PID/smaps says about the memory of a process.
#pragma once

#include "common/base/ids.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct MemoryMap {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool shared = false;      // between processes that map it, as opposed to a private copy
  std::string path;         // without " (deleted)"; empty: none
  int64_t resident = 0;     // bytes, as are those below
  int64_t part = 0;         // of the resident ones, by the number of processes that have them
  int64_t own_changed = 0;  // changed pages of this process alone
  int64_t in_common = 0;    // pages that other processes have too
  int64_t changed = 0;      // changed pages, in common or not
  int64_t no_file = 0;      // pages that belong to no file: those of a file that were changed privately, too

  // Memory of the process itself, "[heap]" included.
  bool is_anonymous() const { return !shared && (path.empty() || path.starts_with('[')); }
};

std::vector<MemoryMap> memory_maps_in(std::string_view smaps);

// "/dev/shm/psm_*" of "/dev/shm/psm_1f3a77": names of one maker.
std::string common_name(std::string_view path);

}  // namespace xpurun::launcher
