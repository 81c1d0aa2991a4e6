// RankSet: a set of ranks stored as sorted disjoint intervals, so that 10,000 consecutive ranks cost one
// interval. Printed and parsed as "0-1,3".
#pragma once

#include "common/base/ids.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xpurun::model {

class RankSet {
 public:
  RankSet() = default;
  RankSet(std::initializer_list<base::Rank> ranks);

  // Parses comma-separated numbers and ascending ranges; empty optional for any other text. Empty text is the
  // empty set.
  static std::optional<RankSet> parse(std::string_view text);
  // In any order, with repetitions.
  static RankSet of(const std::vector<base::Rank>& ranks);
  // [first, last]
  static RankSet range(base::Rank first, base::Rank last);

  void insert(base::Rank rank);
  void insert(const RankSet& other);
  bool contains(base::Rank rank) const;
  bool contains(const RankSet& other) const;
  size_t size() const;
  bool empty() const { return intervals_.empty(); }
  base::Rank lowest() const { return intervals_.empty() ? base::kNoRank : intervals_.front().first; }

  RankSet minus(const RankSet& other) const;
  std::vector<base::Rank> ranks() const;
  std::string text() const;
  // For a sentence: a list with many gaps is cut, "0-3,8,10,12,14,16,... (812 ranks)".
  std::string brief() const;

  friend bool operator==(const RankSet&, const RankSet&) = default;
  friend auto operator<=>(const RankSet&, const RankSet&) = default;

 private:
  std::string text_of(size_t most_intervals) const;
  // Takes intervals in any order that may overlap.
  void set(std::vector<std::pair<base::Rank, base::Rank>> all);

  // Inclusive bounds, sorted, with a gap of at least one between neighbours.
  std::vector<std::pair<base::Rank, base::Rank>> intervals_;
};

}  // namespace xpurun::model
