#include "launcher/speed/straggler_watch.h"

#include "report/speed/ranks/slow_rule.h"

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {
constexpr uint64_t kWindow = 40;  // steps of each rank
}  // namespace

void StragglerWatch::add(base::Rank rank, std::span<const model::Span> spans) {
  Sum& sum = sums_[rank];
  for (const model::Span& s : spans) {
    const bool may_wait = s.stage == model::Stage::backward || s.stage == model::Stage::communication;
    if (may_wait && s.cpu_ns >= 0) {
      sum.waited_ns += std::max<int64_t>(0, s.duration_ns - s.cpu_ns);
    }
  }
}

std::optional<StragglerWatch::Straggler> StragglerWatch::look(const std::map<base::Rank, Steps>& steps) {
  if (steps.size() < 2) {
    return {};
  }
  std::vector<std::pair<double, base::Rank>> waits;  // of one step
  double step_s = 0;
  for (const auto& [rank, seen] : steps) {
    Sum& sum = sums_[rank];
    if (seen.step_s <= 0 || seen.count < sum.from + kWindow) {
      return {};
    }
    waits.emplace_back(static_cast<double>(sum.waited_ns) * 1e-9 / static_cast<double>(seen.count - sum.from),
                       rank);
    step_s = std::max(step_s, seen.step_s);
  }
  for (auto& [rank, sum] : sums_) {
    const auto seen = steps.find(rank);
    sum = {.from = seen == steps.end() ? 0 : seen->second.count};
  }
  std::sort(waits.begin(), waits.end());
  // The rank that waits second least: with one straggler, all others wait.
  const Straggler found{waits[0].second, (waits[1].first - waits[0].first) / step_s};
  const double least = report::alarm_share(report::kLeastAlarmByCpu, found.rank == suspicion_.found());
  const auto news = suspicion_.look(found.share >= least ? found.rank : base::kNoRank);
  over_ = news.over != base::kNoRank ? news.over : over_;
  return news.found ? std::optional(found) : std::nullopt;
}

}  // namespace xpurun::launcher
