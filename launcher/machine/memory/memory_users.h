// MemoryUsersWatch: who has the memory of the ranks' control groups, or of the host, once more than half of
// it is used. Each time it is fuller than before, one look at its processes is kept: the last one before the
// kernel kills. Cheap while there is room: one file for each control group every two seconds. Not
// thread-safe.
#pragma once

#include "common/base/clock.h"
#include "common/model/evidence/memory_users.h"
#include "launcher/machine/cpu/watched_rank.h"
#include "launcher/machine/host/host_files.h"
#include "launcher/machine/memory/control_groups.h"
#include "launcher/machine/memory/memory_files.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class MemoryUsersWatch {
 public:
  // `job`: xpurun.
  explicit MemoryUsersWatch(base::Pid job) : job_(job) {}

  // To be called after the time that it returns, in ms, or earlier. `known`: the ranks; until there is one,
  // the command that xpurun has started is looked at. `wall_ns`: kept with the looks.
  int turn(const HostFiles& host, const std::vector<WatchedRank>& known, base::MonoNs now, int64_t wall_ns);
  // The looks since the call before.
  std::vector<model::MemoryUsers> take() { return std::exchange(looks_, {}); }

 private:
  struct Known {
    base::Rank rank = base::kNoRank;
    int64_t first_bytes = 0;
    base::Pid parent = 0;          // that it has memory in common with
    int64_t copied = 0;            // by the processes that it has forked, at the last look
    std::set<uint64_t> inherited;  // begins of mappings that the process had in common with its parent
  };

  // The last look at a group.
  struct Fullest {
    int64_t bytes = 0;
    base::MonoNs looked = 0;
    int64_t cost_ns = 0;
  };

  void begin(const HostFiles& host);
  void find_groups(const HostFiles& host);
  void look(const HostFiles& host, const ControlGroup& group, const GroupMemory& use, int64_t wall_ns);
  void name_roles(const base::ProcFs& proc, std::vector<model::MemoryUser>& users);
  void read_maps(const base::ProcFs& proc, model::MemoryUsers& look);
  void keep_copies_of_dead(const base::ProcFs& proc, model::MemoryUsers& look);

  base::Pid job_ = 0;
  bool had_ranks_ = false;
  std::vector<WatchedRank> ranks_;
  std::vector<ControlGroup> groups_;        // with a limit; without a directory: the host
  std::map<std::string, Fullest> fullest_;  // by group
  std::map<base::Pid, Known> known_;
  std::optional<MemoryFiles> files_before_;  // those that were there when the ranks began
  base::MonoNs next_ = 0;
  base::MonoNs next_groups_ = 0;
  std::vector<model::MemoryUsers> looks_;
};

}  // namespace xpurun::launcher
