#include "launcher/collect/lateness.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostCalls = size_t{1} << 18;  // of a window: 20 MB
constexpr size_t kMostLateRanks = 4096;

using Begins = std::vector<base::MonoNs>;

}  // namespace

void Lateness::add(base::Rank rank, const Collective& one) {
  if (collectives_ + compute_ >= kMostCalls) {
    overflown_ = true;
    return;
  }
  ++collectives_;
  groups_[one.group][one.sequence].push_back({rank, one.begin});
  work_[rank].collectives.push_back({one.begin, std::max(one.begin, one.end)});
}

void Lateness::add_compute(base::Rank rank, base::MonoNs begin, base::MonoNs end) {
  if (collectives_ + compute_ >= kMostCalls) {
    overflown_ = true;
    return;
  }
  ++compute_;
  work_[rank].compute.push_back({begin, std::max(begin, end)});
}

void Lateness::judge(const std::vector<Arrival>& arrivals, std::map<base::Rank, double>& late_s) {
  Begins sorted;
  for (const Arrival& one : arrivals) {
    sorted.push_back(one.begin);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const Arrival& one : arrivals) {
    const double late =
        base::ns_to_s(std::max<base::MonoNs>(one.begin - report::median_of_others(sorted, one.begin), 0));
    late_s[one.rank] += late;
    ranks_[one.rank].late_s += late;
    if (one.begin == sorted.back()) {
      ranks_[one.rank].cost_s += base::ns_to_s(sorted.back() - sorted[sorted.size() - 2]);
    }
  }
}

void Lateness::finish_window(base::MonoNs from, base::MonoNs until) {
  std::map<base::Rank, double> late_s;
  for (const auto& [group, arrivals] : groups_) {
    size_t members = 0;
    for (const auto& [sequence, ranks] : arrivals) {
      members = std::max(members, ranks.size());
    }
    for (const auto& [sequence, ranks] : arrivals) {
      const bool inside = std::all_of(ranks.begin(), ranks.end(), [&](const Arrival& one) {
        return one.begin >= from && one.begin < until;
      });
      // At the edges of the window, the calls of some ranks are missing.
      if (!overflown_ && inside && members > 1 && ranks.size() == members && ranks_.size() < kMostLateRanks) {
        judge(ranks, late_s);
      }
    }
  }
  for (const auto& [rank, late] : late_s) {
    Work& work = work_[rank];
    std::erase_if(work.collectives, [&](const auto& one) { return one.begin < from || one.begin >= until; });
    const std::vector<report::Interval> collectives = report::united(std::move(work.collectives));
    const std::vector<report::Interval> compute = report::united(std::move(work.compute));
    // The steps that were seen as a whole: from the first collective to the last.
    const int64_t length = collectives.back().end - collectives.front().begin;
    RankLateness& out = ranks_[rank];
    out.looked_s += base::ns_to_s(length);
    if (length > 0) {
      out.late_share = late / base::ns_to_s(length);
      out.exposed_share =
          static_cast<double>(report::length_of(collectives) - report::overlap_of(collectives, compute)) /
          static_cast<double>(length);
    }
  }
  groups_.clear();
  work_.clear();
  collectives_ = compute_ = 0;
  overflown_ = false;
}

RankLateness Lateness::of(base::Rank rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? RankLateness{} : known->second;
}

}  // namespace xpurun::launcher
