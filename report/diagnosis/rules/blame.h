// Words a hang: one clause per group of culprits with the same state and position, then the ranks that wait
// for them.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// Culprits that share a clause: same state, same position.
struct Group {
  RankState state;
  Views views;
};

struct Blamed {
  std::string_view id;
  model::VerdictLevel level = model::VerdictLevel::confirmed;
  model::Confidence confidence = model::Confidence::high;
};

inline constexpr size_t kMostClauses = 3;  // groups named separately in one sentence

double longest(const Views& views);
// The rank's process has exited with status 0.
bool exited_cleanly(const Scene& scene, const RankView& v);

// Ordered by state, worst first, then by lowest rank.
std::vector<Group> group_culprits(const Scene& scene, const Views& culprits);
// "rank 2 (host a, pid 7) has been in load_batch (train.py:31) for 10 s, and rank 5 ...". `waited`: seconds
// that the other ranks have waited.
std::string culprit_clauses(const Scene& scene, const std::vector<Group>& groups, double waited);

// A hang verdict without its sentence and its next step.
model::Verdict begin_hang(const Scene& scene, const Blamed& finding, const std::vector<Group>& groups,
                          const Views& waiting);
// All ranks wait for each other, and none can be named as the cause.
void accuse_nobody(model::Verdict& v);
// The whole verdict where the state of the culprits suffices. `culprits` is not empty.
model::Verdict blame(const Scene& scene, const Views& culprits, const Views& waiting);

}  // namespace xpurun::report
