// MemoryUsers: which processes, and which files that are kept in memory, had the memory of a control group or
// of a host when it was fullest. The kernel kills when nothing is left, and then nobody can look any more.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// What a process is to the ranks that share its memory.
enum class UserRole {
  other,  // neither a rank nor started by one
  rank,
  child,  // started by a rank: a data loader worker, a helper
  job,    // the launcher, xpurun
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<UserRole> = {"other", "rank", "child", "job"};

struct MemoryUser {
  base::Pid pid = 0;
  std::string command;  // "python sidecar.py"
  UserRole role = UserRole::other;
  base::Rank rank = base::kNoRank;  // the rank itself, or the one that started it
  int64_t bytes = 0;                // in memory; what several processes share counts in parts
  int64_t grown = 0;                // since the first look at this process
  int64_t copied = 0;               // copies of pages that it and the processes that it has forked had in
                                    // common (copy on write)
};

// Files and segments in memory whose names differ by numbers only.
enum class MappedKind {
  shared,   // shared memory: a file of a tmpfs, /dev/shm, memfd
  changed,  // a file on a disk, mapped private and changed: as good as memory of the process
  dirty,    // a file on a disk, mapped shared and changed, not written yet
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<MappedKind> = {"shared", "changed", "dirty"};

struct MappedMemory {
  MappedKind kind = MappedKind::shared;
  std::string name;  // "/dev/shm/psm_*", "/data/tokens.bin"
  int64_t bytes = 0;
  int64_t count = 1;                // files
  base::Rank rank = base::kNoRank;  // the only rank that has it, itself or by its children
};

struct MemoryUsers {
  std::string group;  // path of the control group that has the limit; empty: the host
  int64_t wall_ns = 0;
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;    // of processes and shared memory, without the page cache
  int64_t shared_bytes = 0;  // of them: shared memory and files in memory
  int64_t processes = 0;
  std::vector<MemoryUser> users;     // most bytes first; the largest only
  std::vector<MappedMemory> mapped;  // the same

  bool empty() const { return wall_ns == 0; }
};

// What a damaged file says stays within what a host can have.
void limit(MemoryUsers& users);

// One line; a damaged line is an error.
std::string line_of(const MemoryUsers& users);
base::Result<MemoryUsers> memory_users_from(std::string_view line);

}  // namespace xpurun::model
