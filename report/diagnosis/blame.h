// Puts a hang into words: culprits grouped by state and place, one clause each, and who waits for them.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// Culprits that share a clause: same state, same place.
struct Group {
  RankState state;
  Views views;
};

struct Finding {
  std::string_view id;
  model::VerdictLevel level = model::VerdictLevel::confirmed;
  model::Confidence confidence = model::Confidence::high;
};

inline constexpr size_t kMostClauses = 3;  // groups told apart in one sentence

double longest(const Views& views);
// The rank is gone and exited with status 0.
bool exited_cleanly(const Scene& scene, const RankView& v);

// The worst state first, then the lowest rank.
std::vector<Group> group_culprits(const Scene& scene, const Views& culprits);
// "rank 2 (host a, pid 7) has been in load_batch (train.py:31) for 10 s, and rank 5 ...". `waited`: how long
// the others have waited, in seconds.
std::string culprit_clauses(const Scene& scene, const std::vector<Group>& groups, double waited);

// A hang verdict with everything but the sentence and what to do next.
model::Verdict begin_hang(const Scene& scene, const Finding& finding, const std::vector<Group>& groups,
                          const Views& waiting);
// The whole verdict where the state of the culprits says it all. `culprits` is not empty.
model::Verdict blame(const Scene& scene, const Views& culprits, const Views& waiting);

}  // namespace xpurun::report
