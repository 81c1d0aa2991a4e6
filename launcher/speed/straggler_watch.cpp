#include "launcher/speed/straggler_watch.h"

#include "report/speed/ranks/slow_rule.h"

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {
constexpr uint64_t kWindow = 40;     // steps of each rank
constexpr size_t kMostCalls = 4096;  // between two passes
}  // namespace

void StragglerWatch::add(base::Rank rank, std::span<const model::Span> spans,
                         const std::vector<std::string>& names) {
  Sum& sum = sums_[rank];
  for (const model::Span& s : spans) {
    // A stage of a pipeline waits for messages by nature.
    if (s.cpu_ns < 0 && s.group < names.size() && model::is_pair_group(names[s.group])) {
      continue;
    }
    // Calls of torch.distributed have no CPU time. What they transfer, they transfer on all ranks.
    const int64_t waited_ns = std::max<int64_t>(0, s.duration_ns - std::max<int64_t>(0, s.cpu_ns));
    if (s.stage == model::Stage::communication) {
      ++sum.waits;
      sum.waited_ns += waited_ns;
      if (sum.calls.size() < kMostCalls) {
        sum.calls.emplace_back(s.begin_ns, waited_ns);
      }
    } else if (s.stage == model::Stage::backward && s.cpu_ns >= 0) {
      ++sum.waits;
      sum.waited_ns += std::max<int64_t>(0, waited_ns - waited_in_calls(sum, s.begin_ns));
      sum.calls.clear();
    }
  }
}

// Since the begin of a pass, which has these calls in it.
int64_t StragglerWatch::waited_in_calls(const Sum& sum, base::MonoNs begin) {
  int64_t out = 0;
  for (const auto& [called, waited_ns] : sum.calls) {
    out += called >= begin ? waited_ns : 0;
  }
  return out;
}

std::optional<StragglerWatch::Straggler> StragglerWatch::look(const std::map<base::Rank, Steps>& steps) {
  if (steps.size() < 2) {
    return {};
  }
  std::vector<std::pair<double, base::Rank>> waits;  // of one step
  uint64_t most_waits = 0;
  double step_s = 0;
  for (const auto& [rank, seen] : steps) {
    Sum& sum = sums_[rank];
    if (seen.step_s <= 0 || seen.count < sum.from + kWindow) {
      return {};
    }
    waits.emplace_back(static_cast<double>(sum.waited_ns) * 1e-9 / static_cast<double>(seen.count - sum.from),
                       rank);
    step_s = std::max(step_s, seen.step_s);
    most_waits = std::max(most_waits, sum.waits);
  }
  // A rank that meets the others more seldom waits less.
  std::erase_if(waits, [&](const auto& one) { return 2 * sums_[one.second].waits < most_waits; });
  for (auto& [rank, sum] : sums_) {
    const auto seen = steps.find(rank);
    sum = {.from = seen == steps.end() ? 0 : seen->second.count};
  }
  if (waits.size() < 2) {
    return {};
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
