#include "report/operations/meetings.h"

#include "report/events/job_clocks.h"
#include "report/operations/blocks.h"
#include "report/speed/primitives/duration_sketch.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <span>

namespace xpurun::report {

namespace {

using Gathering = std::span<RankArrival>;

constexpr size_t kLeastForClock = 20;  // ends
constexpr size_t kShownLateRanks = 8;

int64_t last_end(Gathering all) {
  return std::max_element(all.begin(), all.end(),
                          [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; })
      ->end_ns;
}

// A rank that is there twice shows that the numbers of the collectives began anew.
bool is_sound(Gathering all) {
  return all.size() > 1 && std::adjacent_find(all.begin(), all.end(), [](const auto& a, const auto& b) {
                             return a.rank == b.rank;
                           }) == all.end();
}

// Calls `use` for every collective with at least two ranks. Needs arrivals in order.
template <typename F>
void each_gathering(std::vector<RankArrival>& arrivals, F&& use) {
  for (size_t first = 0; first < arrivals.size();) {
    size_t last = first + 1;
    while (last < arrivals.size() && arrivals[last].meeting == arrivals[first].meeting) {
      ++last;
    }
    const Gathering all(arrivals.data() + first, last - first);
    if (is_sound(all)) {
      use(all);
    }
    first = last;
  }
}

struct RowSums {
  model::Lateness out;
  DurationSketch transfers;
  std::vector<std::pair<int64_t, float>> series;  // time of the last arrival, transfer in ns
  std::vector<std::pair<int64_t, float>> skews;   // likewise, from the first arrival to the last one
  struct Skew {
    double sum_ns = 0;
    int64_t count = 0;
  };
  std::map<base::Rank, Skew> rank_skews;
  std::map<uint32_t, model::LateRank> ranks;
  std::map<uint32_t, std::pair<double, int64_t>> late_ns;  // sum after the median of the others, number
};

void add_lateness(RowSums& row, Gathering all, std::vector<int64_t>& begins) {
  begins.clear();
  for (const RankArrival& one : all) {
    begins.push_back(one.begin_ns);
  }
  std::sort(begins.begin(), begins.end());
  for (const RankArrival& one : all) {
    auto& [sum, count] = row.late_ns[one.rank];
    sum += static_cast<double>(std::max<int64_t>(one.begin_ns - median_of_others(begins, one.begin_ns), 0));
    ++count;
  }
}

void add_to(RowSums& row, Gathering all, const std::vector<RankPlace>& ranks) {
  const auto& last = *std::max_element(all.begin(), all.end(),
                                       [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  const int64_t first = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                          return a.begin_ns < b.begin_ns;
                        })->begin_ns;
  row.skews.emplace_back(last.begin_ns, static_cast<float>(last.begin_ns - first));
  for (const RankArrival& one : all) {
    RowSums::Skew& skew = row.rank_skews[ranks[one.rank].rank];
    skew.sum_ns += static_cast<double>(one.begin_ns - first);
    ++skew.count;
  }
  int64_t wait = 0;
  for (const RankArrival& one : all) {
    wait += std::max<int64_t>(std::min(last.begin_ns, one.end_ns) - one.begin_ns, 0);
  }
  ++row.out.meetings;
  row.out.mean_ranks += static_cast<double>(all.size());  // a sum until the end
  row.out.wait_s += static_cast<double>(wait) * 1e-9;
  const auto transfer = static_cast<double>(last_end(all) - last.begin_ns);
  row.transfers.add(transfer);
  row.series.emplace_back(last.begin_ns, static_cast<float>(transfer));
  model::LateRank& late = row.ranks[last.rank];
  late.rank = ranks[last.rank].rank;
  ++late.times;
  late.cost_s += static_cast<double>(wait) * 1e-9;
}

std::vector<double> blocks_of(std::vector<std::pair<int64_t, float>>& series) {
  std::sort(series.begin(), series.end());
  std::vector<float> values;
  values.reserve(series.size());
  for (const auto& [time, value] : series) {
    values.push_back(value);
  }
  return block_medians(values);
}

}  // namespace

void Meetings::add(const RankArrival& arrival) {
  if ((arrival.meeting & mask_) == 0) {
    arrivals_.push_back(arrival);
    while (arrivals_.size() > most_ && mask_ != ~uint64_t{0}) {
      thin_out();
    }
  }
}

void Meetings::thin_out() {
  // The ids of collectives are hashes, equal on all ranks, so this keeps the same half on every rank.
  mask_ = mask_ << 1 | 1;
  std::erase_if(arrivals_, [this](const RankArrival& a) { return (a.meeting & mask_) != 0; });
}

void Meetings::align_hosts(const std::vector<RankPlace>& ranks) {
  JobClocks clocks(kLeastForClock);
  std::vector<uint32_t> hosts;
  for (const RankPlace& rank : ranks) {
    hosts.push_back(clocks.host(rank.host));
  }
  each_gathering(arrivals_, [&](Gathering all) {
    for (const RankArrival& one : all) {
      if (one.ends_together != 0) {
        clocks.add(hosts[one.rank], one.meeting, one.end_ns);
      }
    }
  });
  clocks.solve();
  for (RankArrival& one : arrivals_) {
    const int64_t by = clocks.offset_ns(ranks[one.rank].host);
    one.begin_ns += by;
    one.end_ns += by;
  }
}

std::map<uint32_t, model::Lateness> Meetings::lateness(const std::vector<RankPlace>& ranks) {
  std::sort(arrivals_.begin(), arrivals_.end(), [](const RankArrival& a, const RankArrival& b) {
    return a.meeting != b.meeting ? a.meeting < b.meeting : a.rank < b.rank;
  });
  align_hosts(ranks);
  std::map<uint32_t, RowSums> rows;
  std::vector<int64_t> begins;
  each_gathering(arrivals_, [&](Gathering all) {
    RowSums& row = rows[all.front().row];
    add_to(row, all, ranks);
    add_lateness(row, all, begins);
  });
  arrivals_ = {};
  std::map<uint32_t, model::Lateness> out;
  for (auto& [number, row] : rows) {
    row.out.mean_ranks /= static_cast<double>(std::max<int64_t>(row.out.meetings, 1));
    row.out.transfer_s = row.transfers.quantile_s(0.5);
    transfer_blocks_[number] = blocks_of(row.series);
    skew_blocks_[number] = blocks_of(row.skews);
    for (const auto& [rank, skew] : row.rank_skews) {
      rank_skews_[number][rank] = skew.sum_ns * 1e-9 / static_cast<double>(skew.count);
    }
    for (const auto& [rank, late] : row.late_ns) {
      mean_late_[number][ranks[rank].rank] = late.first * 1e-9 / static_cast<double>(late.second);
    }
    for (const auto& [rank, late] : row.ranks) {
      row.out.ranks.push_back(late);
    }
    std::stable_sort(row.out.ranks.begin(), row.out.ranks.end(),
                     [](const auto& a, const auto& b) { return a.cost_s > b.cost_s; });
    row.out.ranks.resize(std::min(row.out.ranks.size(), kShownLateRanks));
    out.emplace(number, std::move(row.out));
  }
  return out;
}

std::map<base::Rank, double> Meetings::mean_late(uint32_t row) const {
  const auto found = mean_late_.find(row);
  return found == mean_late_.end() ? std::map<base::Rank, double>() : found->second;
}

std::vector<double> Meetings::of_row(const Blocks& blocks, uint32_t row) {
  const auto found = blocks.find(row);
  return found == blocks.end() ? std::vector<double>() : found->second;
}

std::map<base::Rank, double> Meetings::skew_of_ranks(uint32_t row) const {
  const auto found = rank_skews_.find(row);
  return found == rank_skews_.end() ? std::map<base::Rank, double>() : found->second;
}

}  // namespace xpurun::report
