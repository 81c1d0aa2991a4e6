// Roles: ranks that do the same work. The stages of a pipeline, or ranks of models side by side, multiply
// other matrices and meet in other collectives, so their times are not compared with each other.
#pragma once

#include "common/base/ids.h"

#include <cstdint>
#include <map>
#include <vector>

namespace xpurun::report {

// How often a rank makes each kind of call; kinds are hashes.
using WorkCounts = std::map<uint64_t, double>;

class RankRoles {
 public:
  // A rank has the role of the first rank whose counts are alike: as shares of all calls, they have
  // most in common. A rank that calls nothing has no role.
  void add(base::Rank rank, const WorkCounts& counts);

  // Ranks without a role are compared with all.
  bool may_compare(base::Rank a, base::Rank b) const;
  bool empty() const { return role_of_.empty(); }
  size_t roles() const { return samples_.size(); }

 private:
  std::vector<WorkCounts> samples_;  // by role: shares of its first rank
  std::map<base::Rank, size_t> role_of_;
};

}  // namespace xpurun::report
