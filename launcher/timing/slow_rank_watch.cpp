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
  // A found rank is over when it costs far less.
  const double least = expected_ ? kLeastExpected : kLeastShare;
  const bool slow = worst.share >= (worst.rank == suspicion_.found() ? least / 2 : least);
  const auto news = suspicion_.look(slow ? worst.rank : base::kNoRank);
  over_ = news.over != base::kNoRank ? news.over : over_;
  return news.found ? std::optional(worst) : std::nullopt;
}

}  // namespace xpurun::launcher
