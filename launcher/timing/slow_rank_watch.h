// SlowRankWatch: finds a rank that keeps the others waiting in two looks one after the other, from the first
// steps on: such a job never becomes slower, so nothing else would capture it. Likewise where the job has
// become slower by too little to be reported. Reports once. Pure.
#pragma once

#include "launcher/collect/lateness.h"

#include <map>
#include <optional>

namespace xpurun::launcher {

class SlowRankWatch {
 public:
  struct SlowRank {
    base::Rank rank = base::kNoRank;
    double share = 0;  // of the time of the latest look, for which the others waited
  };
  // After each look, with the sums of all ranks of this node.
  std::optional<SlowRank> look(const std::map<base::Rank, RankLateness>& ranks);
  // The job has become a little slower: a small wait is enough from now on.
  void expect_one() { expected_ = true; }
  // The latest look shows a slow rank, and another look would make it certain.
  bool suspects() const { return suspect_ != base::kNoRank && !told_; }

 private:
  std::map<base::Rank, RankLateness> before_;
  base::Rank suspect_ = base::kNoRank;
  bool told_ = false;
  bool expected_ = false;
};

}  // namespace xpurun::launcher
