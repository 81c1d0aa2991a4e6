// SlowRankWatch: finds a rank that keeps the others waiting in two looks one after the other, from the first
// steps on: such a job never becomes slower, so nothing else would capture it. Likewise where the job has
// become slower by too little to be reported. Reports once until that is over. Pure.
#pragma once

#include "launcher/collect/lateness.h"
#include "launcher/speed/suspicion.h"

#include <map>
#include <optional>
#include <utility>

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
  bool suspects() const { return suspicion_.waits(); }
  // The rank that look() has reported, once the others no longer wait for it; kNoRank: none. Forgets it.
  base::Rank take_over() { return std::exchange(over_, base::kNoRank); }
  // What was reported was chance.
  void forget() { suspicion_.forget(); }

 private:
  std::map<base::Rank, RankLateness> before_;
  Suspicion suspicion_;
  base::Rank over_ = base::kNoRank;
  bool expected_ = false;
};

}  // namespace xpurun::launcher
