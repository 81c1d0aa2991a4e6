#include "launcher/timing/slow_rank_watch.h"

#include "report/speed/ranks/slow_rule.h"

namespace xpurun::launcher {

std::optional<SlowRankWatch::SlowRank> SlowRankWatch::look(const std::map<base::Rank, RankLateness>& ranks) {
  SlowRank worst;
  for (const auto& [rank, sums] : ranks) {
    const RankLateness& before = before_[rank];
    const double looked_s = sums.looked_s - before.looked_s;
    const double share = looked_s > 0 ? (sums.cost_s - before.cost_s) / looked_s : 0;
    worst = share > worst.share ? SlowRank{rank, share} : worst;
  }
  before_ = ranks;
  const double least = expected_ ? report::kLeastExpected : report::kLeastAlarm;
  const bool slow = worst.share >= report::alarm_share(least, worst.rank == suspicion_.found());
  const auto news = suspicion_.look(slow ? worst.rank : base::kNoRank);
  over_ = news.over != base::kNoRank ? news.over : over_;
  return news.found ? std::optional(worst) : std::nullopt;
}

}  // namespace xpurun::launcher
