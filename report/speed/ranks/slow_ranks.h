// Who costs the others time: compares, step by step, the slowest rank with the next one.
#pragma once

#include "report/speed/ranks/waits.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

struct Blame {
  std::vector<size_t> ranks;  // indices, ascending
  bool host = false;          // all ranks of one host
  double lost_s = 0;  // of a step: what the job would win without these ranks being slower than others
  double share = 0;   // of a step
};

// `hosts`: of each rank. Empty if no rank stands out: the slowest rank changes, or all are alike.
std::optional<Blame> find_blame(const OwnTimes& own, const std::vector<std::string>& hosts,
                                StepWindow window);

// Whether ranks that cost `now` are why the steps take longer than when `before` was so; null: nobody stood
// out. What makes the other ranks slower by as much, such as other programs on the CPUs, is no work of
// theirs.
bool explains_change(const std::optional<Blame>& before, const Blame& now);

// Whether the steps of `later` show that these ranks (indices, ascending) exceed the others by less than half
// as much as before. Steps that vary much show nothing.
bool have_recovered(const OwnTimes& own, const std::vector<size_t>& ranks, StepWindow before,
                    StepWindow later);

// Fewer steps with known waits are too few to blame a rank, unless the window is as short.
inline constexpr size_t kLeastKnown = 6;
// Steps of which the own time of a rank is known.
size_t known_steps(const OwnTimes& own, StepWindow window);

// Mean time of a step of the slowest rank: what the job needs without the waits.
double critical_seconds(const OwnTimes& own, StepWindow window);

}  // namespace xpurun::report
