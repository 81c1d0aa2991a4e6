#include "common/model/rank_set.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::model {

using base::Rank;

RankSet::RankSet(std::initializer_list<Rank> ranks) {
  for (Rank r : ranks) {
    insert(r);
  }
}

RankSet RankSet::range(Rank first, Rank last) {
  RankSet s;
  if (first <= last) {
    s.intervals_.emplace_back(first, last);
  }
  return s;
}

void RankSet::set(std::vector<std::pair<Rank, Rank>> all) {
  if (!std::is_sorted(all.begin(), all.end())) {
    std::sort(all.begin(), all.end());
  }
  intervals_.clear();
  for (const auto& [first, last] : all) {
    if (!intervals_.empty() && int64_t{first} <= int64_t{intervals_.back().second} + 1) {
      intervals_.back().second = std::max(intervals_.back().second, last);
    } else {
      intervals_.emplace_back(first, last);
    }
  }
}

RankSet RankSet::of(const std::vector<Rank>& ranks) {
  std::vector<std::pair<Rank, Rank>> all;
  all.reserve(ranks.size());
  for (const Rank rank : ranks) {
    all.emplace_back(rank, rank);
  }
  RankSet out;
  out.set(std::move(all));
  return out;
}

std::optional<RankSet> RankSet::parse(std::string_view text) {
  RankSet out;
  if (base::trim(text).empty()) {
    return out;
  }
  std::vector<std::pair<Rank, Rank>> all;
  for (std::string_view part : base::split(text, ',')) {
    part = base::trim(part);
    const size_t dash = part.find('-', 1);
    const auto first = base::parse_int(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : base::parse_int(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > INT32_MAX) {
      return std::nullopt;
    }
    all.emplace_back(static_cast<Rank>(*first), static_cast<Rank>(*last));
  }
  out.set(std::move(all));
  return out;
}

void RankSet::insert(Rank rank) {
  // By far the most common case: ranks arrive in ascending order.
  if (!intervals_.empty() && int64_t{intervals_.back().second} + 1 == rank) {
    intervals_.back().second = rank;
  } else if (intervals_.empty() || rank > intervals_.back().second) {
    intervals_.emplace_back(rank, rank);
  } else {
    insert(range(rank, rank));
  }
}

void RankSet::insert(const RankSet& other) {
  if (other.empty()) {
    return;
  }
  std::vector<std::pair<Rank, Rank>> all;
  all.reserve(intervals_.size() + other.intervals_.size());
  std::merge(intervals_.begin(), intervals_.end(), other.intervals_.begin(), other.intervals_.end(),
             std::back_inserter(all));
  set(std::move(all));
}

bool RankSet::contains(Rank rank) const {
  const auto it = std::upper_bound(intervals_.begin(), intervals_.end(), rank,
                                   [](Rank r, const auto& interval) { return r < interval.first; });
  return it != intervals_.begin() && rank <= std::prev(it)->second;
}

bool RankSet::contains(const RankSet& other) const {
  return other.minus(*this).empty();
}

size_t RankSet::size() const {
  size_t n = 0;
  for (const auto& [first, last] : intervals_) {
    n += static_cast<size_t>(int64_t{last} - first) + 1;
  }
  return n;
}

RankSet RankSet::minus(const RankSet& other) const {
  RankSet out;
  auto cut = other.intervals_.begin();
  for (auto [first, last] : intervals_) {
    while (cut != other.intervals_.end() && cut->second < first) {
      ++cut;
    }
    bool left = true;  // part of [first, last] remains
    for (auto c = cut; left && c != other.intervals_.end() && c->first <= last; ++c) {
      if (c->first > first) {
        out.intervals_.emplace_back(first, c->first - 1);
      }
      left = c->second < last;
      first = left ? c->second + 1 : last;
    }
    if (left) {
      out.intervals_.emplace_back(first, last);
    }
  }
  return out;
}

std::vector<Rank> RankSet::ranks() const {
  std::vector<Rank> out;
  out.reserve(size());
  for (const auto& [first, last] : intervals_) {
    for (int64_t r = first; r <= last; ++r) {
      out.push_back(static_cast<Rank>(r));
    }
  }
  return out;
}

std::string RankSet::text_of(size_t most_intervals) const {
  std::string out;
  for (size_t i = 0; i < std::min(most_intervals, intervals_.size()); ++i) {
    const auto& [first, last] = intervals_[i];
    out += i == 0 ? "" : ",";
    out += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return out;
}

std::string RankSet::text() const {
  return text_of(intervals_.size());
}

std::string RankSet::brief() const {
  constexpr size_t kMostIntervals = 8;
  constexpr size_t kNamedIntervals = 6;
  return intervals_.size() <= kMostIntervals
             ? text()
             : fmt::format("{},... ({} ranks)", text_of(kNamedIntervals), size());
}

}  // namespace xpurun::model
