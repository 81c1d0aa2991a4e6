#include "report/operations/idle/void_outliers.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <vector>

namespace xpurun::report {

namespace {

constexpr double kLeastVoidExcess = 0.05;  // of the time
constexpr double kVoidSpreads = 4;         // robust standard deviations of the other ranks

}  // namespace

void mark_void_outliers(model::IdleTime& idle, const RankRoles& roles) {
  size_t outliers = 0;
  size_t compared = 0;
  for (model::RankIdle& one : idle.ranks) {
    std::vector<double> others;
    for (const model::RankIdle& other : idle.ranks) {
      if (other.rank != one.rank && other.void_share() >= 0 && roles.may_compare(one.rank, other.rank)) {
        others.push_back(other.void_share());
      }
    }
    one.outlier = false;
    if (others.empty() || one.void_share() < 0) {
      continue;
    }
    ++compared;
    const double usual = median(others);
    one.others_void_share = usual;
    one.outlier =
        one.void_share() - usual > std::max(kLeastVoidExcess, kVoidSpreads * robust_spread(others, usual));
    outliers += one.outlier ? 1 : 0;
  }
  if (outliers * 2 >= compared && !(outliers == 1 && compared == 2)) {
    for (model::RankIdle& one : idle.ranks) {
      one.outlier = false;
    }
  }
}

}  // namespace xpurun::report
