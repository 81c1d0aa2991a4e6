// Files that are kept in memory: those of a tmpfs, memfd, shared memory, and changed pages of mapped files.
#pragma once

#include "common/model/evidence/memory_users.h"
#include "launcher/machine/host/host_files.h"
#include "launcher/machine/memory/memory_maps.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class MemoryFiles {
 public:
  // `mountinfo`: of a rank.
  explicit MemoryFiles(std::string mountinfo) : mountinfo_(std::move(mountinfo)) {}

  // Files in file systems that keep them in memory, as the process sees them.
  void add_mounts(const base::ProcFs& proc, base::Pid pid);
  // `owner`: the rank of the process, or the one that started it.
  void add_maps(const std::vector<MemoryMap>& maps, base::Rank owner);
  void add_open(const base::ProcFs& proc, base::Pid pid, base::Rank owner);

  int64_t shared_bytes() const;
  // Most bytes first; only what has grown by much since `before`.
  std::vector<model::MappedMemory> list(const MemoryFiles* before) const;

 private:
  using Key = std::pair<model::MappedKind, std::string>;
  struct File {
    int64_t bytes = 0;
    std::set<base::Rank> owners;
  };
  struct Sum {
    int64_t bytes = 0;
    int64_t count = 0;
    std::string name;  // of the only file
    std::set<base::Rank> owners;
  };

  std::optional<model::MappedKind> kind_of(const MemoryMap& map) const;
  bool is_in_memory(const std::string& path) const;
  void add(model::MappedKind kind, const std::string& path, int64_t bytes, base::Rank owner);
  std::map<Key, Sum> sums() const;

  std::string mountinfo_;
  std::map<Key, File> files_;  // by path
};

}  // namespace xpurun::launcher
