#include "report/speed/duration_rows.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

model::RankDurations rank_durations(base::Rank rank, std::vector<double>& seconds) {
  return {.rank = rank,
          .count = static_cast<int64_t>(seconds.size()),
          .p5_s = quantile(seconds, 0.05),
          .p25_s = quantile(seconds, 0.25),
          .median_s = quantile(seconds, 0.5),
          .p75_s = quantile(seconds, 0.75),
          .p95_s = quantile(seconds, 0.95),
          .p99_s = quantile(seconds, 0.99)};
}

void keep_unusual(std::vector<model::RankDurations>& ranks) {
  if (ranks.size() > kMostDurationRanks) {
    std::vector<double> medians;
    for (const model::RankDurations& one : ranks) {
      medians.push_back(one.median_s);
    }
    const double usual = quantile(medians, 0.5);
    std::stable_sort(ranks.begin(), ranks.end(), [usual](const auto& a, const auto& b) {
      return std::abs(a.median_s - usual) > std::abs(b.median_s - usual);
    });
    ranks.resize(kMostDurationRanks);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
}

}  // namespace xpurun::report
