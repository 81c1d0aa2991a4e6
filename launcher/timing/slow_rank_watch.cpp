#include "launcher/timing/slow_rank_watch.h"

namespace xpurun::launcher {

namespace {
constexpr double kLeastShare = 0.15;
constexpr double kLeastExpected = 0.05;
}  // namespace

std::optional<SlowRankWatch::SlowRank> SlowRankWatch::look(const std::map<base::Rank, RankLateness>& ranks) {
  SlowRank worst;
  for (const auto& [rank, sums] : ranks) {
    const RankLateness& before = before_[rank];
    const double looked_s = sums.looked_s - before.looked_s;
    const double share = looked_s > 0 ? (sums.cost_s - before.cost_s) / looked_s : 0;
    worst = share > worst.share ? SlowRank{rank, share} : worst;
  }
  before_ = ranks;
  const base::Rank suspected = suspect_;
  suspect_ = worst.share >= (expected_ ? kLeastExpected : kLeastShare) ? worst.rank : base::kNoRank;
  if (told_ || suspect_ == base::kNoRank || suspect_ != suspected) {
    return {};
  }
  told_ = true;
  return worst;
}

}  // namespace xpurun::launcher
