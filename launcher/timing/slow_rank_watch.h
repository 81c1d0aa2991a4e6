// SlowRankWatch: finds a rank that keeps the others waiting in two looks one after the other, from the first
// steps on: such a job never becomes slower, so nothing else would capture it. Reports once. Pure.
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
  // The latest look shows a slow rank, and another look would make it certain.
  bool suspects() const { return suspect_ != base::kNoRank && !told_; }

 private:
  std::map<base::Rank, RankLateness> before_;
  base::Rank suspect_ = base::kNoRank;
  bool told_ = false;
};

}  // namespace xpurun::launcher
