#include "report/speed/roles/rank_roles.h"

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr double kAlike = 0.6;
constexpr size_t kMostRoles = 256;

WorkCounts shares_of(const WorkCounts& counts) {
  double sum = 0;
  for (const auto& [kind, count] : counts) {
    sum += std::max(count, 0.0);
  }
  WorkCounts out;
  for (const auto& [kind, count] : counts) {
    if (count > 0) {
      out[kind] = count / sum;
    }
  }
  return out;
}

// What both do, as a share of what either does.
double in_common(const WorkCounts& a, const WorkCounts& b) {
  double both = 0;
  for (const auto& [kind, share] : a) {
    if (const auto found = b.find(kind); found != b.end()) {
      both += std::min(share, found->second);
    }
  }
  return both / (2 - both);
}

}  // namespace

void RankRoles::add(base::Rank rank, const WorkCounts& counts) {
  WorkCounts shares = shares_of(counts);
  if (shares.empty()) {
    return;
  }
  for (size_t role = 0; role < samples_.size(); ++role) {
    if (in_common(samples_[role], shares) >= kAlike) {
      role_of_[rank] = role;
      return;
    }
  }
  if (samples_.size() < kMostRoles) {
    role_of_[rank] = samples_.size();
    samples_.push_back(std::move(shares));
  }
}

bool RankRoles::may_compare(base::Rank a, base::Rank b) const {
  const auto of_a = role_of_.find(a);
  const auto of_b = role_of_.find(b);
  return of_a == role_of_.end() || of_b == role_of_.end() || of_a->second == of_b->second;
}

}  // namespace xpurun::report
