// Whose the processes are that had a rank's CPUs, and how their times are put together. Pure but for the
// names, which come from /proc.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/evidence/machine.h"
#include "launcher/machine/cpu/cpu_times.h"
#include "launcher/machine/cpu/watched_rank.h"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// "/user.slice" of the text of /proc/PID/cgroup: the unified hierarchy, else the first controller with a
// group. Empty: all are the root.
std::string control_group(std::string_view cgroup);

class CpuTakers {
 public:
  // `job`: xpurun. `times`: see also those that have ended.
  CpuTakers(base::ProcFs proc, base::Pid job, const std::vector<WatchedRank>& ranks, const CpuTimes& times);

  struct Rank {
    base::Rank rank = base::kNoRank;
    base::Pid pid = 0;
    std::set<int> cpus;
    double watched_s = 0;
    double ready_s = 0;
    double unseen_s = 0;  // CPU time on its CPUs that no process explains
  };
  // Those with 5 % of the CPUs' time or more, most first. The rank's own process is not among them.
  std::vector<model::Intruder> of(const Rank& rank);

 private:
  struct Name {
    std::string command;
    std::string group;
    model::CpuRelation relation = model::CpuRelation::stranger;
    base::Rank owner = base::kNoRank;
    bool known = true;  // false: ended before anybody could say whose the process was
  };
  Name name_of(base::Pid pid, const Rank& rank) const;
  base::Pid parent_of(base::Pid pid) const;
  bool same_job(base::Pid pid, base::Pid rank) const;

  base::ProcFs proc_;
  base::Pid job_;
  std::map<base::Pid, base::Rank> ranks_;
  std::set<base::Pid> ancestors_;  // of the ranks
  const CpuTimes& times_;
};

}  // namespace xpurun::launcher
