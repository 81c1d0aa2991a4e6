#include "launcher/watch/stall_groups.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

namespace xpurun::launcher {

namespace {

bool may_wait_for_any_rank(const StillRank& r) {
  return r.waits_for == WaitTarget::peers && r.with.empty();
}

// A rank in no recorded call that waits for no other rank.
bool by_itself(const StillRank& r) {
  return r.waits_for != WaitTarget::peers && r.with.empty();
}

bool near(const StillRank& a, const StillRank& b) {
  return std::abs(a.last_progress - b.last_progress) <= kNearNs;
}

bool related(const StillRank& a, const StillRank& b) {
  if (a.with.contains(b.rank) || b.with.contains(a.rank) || may_wait_for_any_rank(a) ||
      may_wait_for_any_rank(b)) {
    return true;
  }
  const bool alike = (a.waits_for == WaitTarget::outside) == (b.waits_for == WaitTarget::outside);
  return by_itself(a) && by_itself(b) && alike && near(a, b);
}

class Union {
 public:
  explicit Union(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) {
    while (parent_[i] != i) {
      i = parent_[i] = parent_[parent_[i]];
    }
    return i;
  }
  void join(size_t a, size_t b) { parent_[root(a)] = root(b); }

 private:
  std::vector<size_t> parent_;
};

}  // namespace

std::vector<model::RankSet> stall_groups(const std::vector<StillRank>& ranks) {
  Union groups(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (groups.root(i) != groups.root(j) && related(ranks[i], ranks[j])) {
        groups.join(i, j);
      }
    }
  }
  std::map<size_t, std::vector<base::Rank>> members;
  for (size_t i = 0; i < ranks.size(); ++i) {
    members[groups.root(i)].push_back(ranks[i].rank);
  }
  std::vector<model::RankSet> out;
  for (const auto& [root, of_group] : members) {
    out.push_back(model::RankSet::of(of_group));
  }
  std::sort(out.begin(), out.end(),
            [](const model::RankSet& a, const model::RankSet& b) { return a.lowest() < b.lowest(); });
  return out;
}

}  // namespace xpurun::launcher
