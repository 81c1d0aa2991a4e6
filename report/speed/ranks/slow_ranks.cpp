#include "report/speed/ranks/slow_ranks.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/slow_rule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace xpurun::report {

namespace {

constexpr size_t kMostBlamed = 16;
constexpr double kOutlier = 4;           // robust standard deviations between the ranks
constexpr double kOutlierShare = 0.025;  // and this share of a step
constexpr double kFewRanks = 4;          // fewer ranks have no distribution: their steps are compared
constexpr double kCertain = 5;           // standard errors
constexpr double kHostFactor = 1.5;      // a host has to explain this much more than its worst rank
constexpr double kMostOfIt = 0.8;
constexpr size_t kLeastOfQuarter = 10;   // steps
constexpr size_t kFewLeads = 5;          // steps
constexpr double kMedianError = 1.2533;  // standard errors of a mean
constexpr double kRecovered = 0.5;       // of what the ranks cost before
constexpr double kSurely = 2;            // standard errors
constexpr double kMostOfChange = 0.5;
constexpr double kLeastS = 1e-9;

// By step: the slowest of `ranks`, minus the median of the others. What slows one rank or another for a
// moment counts little.
std::vector<double> over_others(const OwnTimes& own, const std::vector<size_t>& ranks, StepWindow window) {
  std::vector<double> out;
  for (size_t i = window.first; i < window.last; ++i) {
    float slow = -1;
    std::vector<double> others;
    const auto step = own.step(i);
    for (size_t r = 0; r < step.size(); ++r) {
      if (std::binary_search(ranks.begin(), ranks.end(), r)) {
        slow = std::max(slow, step[r]);
      } else if (step[r] >= 0) {
        others.push_back(static_cast<double>(step[r]));
      }
    }
    if (slow >= 0 && !others.empty()) {
      out.push_back(static_cast<double>(slow) - quantile(others, 0.5));
    }
  }
  return out;
}

// The mean over the window of: the slowest of all ranks, minus the slowest of those not in `out`.
double saving(const OwnTimes& own, StepWindow window, const std::vector<bool>& out) {
  double sum = 0;
  size_t known = 0;
  for (size_t i = window.first; i < window.last; ++i) {
    float most = -1;
    float others = -1;
    const auto step = own.step(i);
    for (size_t r = 0; r < step.size(); ++r) {
      most = std::max(most, step[r]);
      others = out[r] ? others : std::max(others, step[r]);
    }
    sum += others < 0 ? 0 : static_cast<double>(most - others);
    known += most < 0 ? 0 : 1;
  }
  return known > 0 ? sum / static_cast<double>(known) : 0;
}

std::vector<double> means(const OwnTimes& own, StepWindow window) {
  std::vector<double> sums(own.ranks(), 0);
  std::vector<size_t> counts(own.ranks(), 0);
  for (size_t i = window.first; i < window.last; ++i) {
    const auto step = own.step(i);
    for (size_t r = 0; r < step.size(); ++r) {
      if (step[r] >= 0) {
        sums[r] += static_cast<double>(step[r]);
        ++counts[r];
      }
    }
  }
  for (size_t r = 0; r < sums.size(); ++r) {
    sums[r] = counts[r] > 0 ? sums[r] / static_cast<double>(counts[r]) : -1;
  }
  return sums;
}

// Whether nearly all steps are: in each quarter of them. Single steps may last very long on a loaded machine,
// so that a mean is not certain.
bool most_of_each_quarter(const std::vector<bool>& steps) {
  const size_t quarter = steps.size() / 4;
  for (size_t first = 0; quarter >= kLeastOfQuarter && first + quarter <= steps.size(); first += quarter) {
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = std::count(begin, begin + static_cast<std::ptrdiff_t>(quarter), true);
    if (static_cast<double>(count) < kMostOfIt * static_cast<double>(quarter)) {
      return false;
    }
  }
  return quarter >= kLeastOfQuarter;
}

// Whether the rank is later than the latest other in the mean of the steps, not by chance.
bool later_than_others(const OwnTimes& own, StepWindow window, size_t rank) {
  std::vector<double> later;
  std::vector<bool> much;
  double sum = 0;
  for (size_t i = window.first; i < window.last; ++i) {
    const auto step = own.step(i);
    float others = -1;
    for (size_t r = 0; r < step.size(); ++r) {
      others = r == rank ? others : std::max(others, step[r]);
    }
    if (others >= 0 && step[rank] >= 0) {
      later.push_back(static_cast<double>(step[rank] - others));
      sum += later.back();
      much.push_back(later.back() >= kLeastBlame * static_cast<double>(step[rank]));
    }
  }
  if (later.size() < kFewLeads) {
    return false;
  }
  if (most_of_each_quarter(much)) {
    return true;
  }
  const auto count = static_cast<double>(later.size());
  const double mean = sum / count;
  for (double& one : later) {
    one -= mean;
  }
  // A rank that another load slows for some steps in a row is not slower than the others.
  return mean > kCertain * std::sqrt(lasting_variance(later) / count);
}

// Ranks whose mean stands out, the slowest first.
std::vector<size_t> outliers(const OwnTimes& own, StepWindow window, double step_s) {
  const std::vector<double> mean = means(own, window);
  std::vector<double> known;
  std::vector<size_t> order;
  for (size_t r = 0; r < mean.size(); ++r) {
    if (mean[r] >= 0) {
      known.push_back(mean[r]);
      order.push_back(r);
    }
  }
  std::sort(order.begin(), order.end(), [&mean](size_t a, size_t b) { return mean[a] > mean[b]; });
  if (order.size() < 2) {
    return {};
  }
  if (static_cast<double>(order.size()) < kFewRanks) {
    return later_than_others(own, window, order.front()) ? std::vector{order.front()} : std::vector<size_t>();
  }
  const double centre = median(known);
  const double least = std::max(kOutlier * robust_spread(known, centre), kOutlierShare * step_s);
  std::erase_if(order, [&](size_t r) { return mean[r] - centre < least; });
  return order;
}

// The fewest of the slowest ranks that explain most of what can be explained.
Blame blame_ranks(const OwnTimes& own, StepWindow window, const std::vector<size_t>& slow) {
  std::vector<double> savings;
  std::vector<bool> out(own.ranks(), false);
  for (size_t k = 0; k < std::min(slow.size(), kMostBlamed); ++k) {
    out[slow[k]] = true;
    savings.push_back(saving(own, window, out));
  }
  Blame blame;
  for (size_t k = 0; k < savings.size(); ++k) {
    blame.ranks.push_back(slow[k]);
    blame.lost_s = savings[k];
    if (savings[k] >= kMostOfIt * savings.back()) {
      break;
    }
  }
  return blame;
}

Blame blame_host(const OwnTimes& own, StepWindow window, const std::vector<std::string>& hosts,
                 const std::vector<size_t>& slow) {
  std::map<std::string, std::vector<size_t>> members;
  std::map<std::string, size_t> slow_members;
  for (size_t r = 0; r < hosts.size(); ++r) {
    members[hosts[r]].push_back(r);
  }
  for (const size_t r : slow) {
    ++slow_members[hosts[r]];
  }
  Blame best;
  for (const auto& [host, count] : slow_members) {
    const std::vector<size_t>& all = members[host];
    if (members.size() < 2 || all.size() < 2 || 2 * count < all.size()) {
      continue;
    }
    std::vector<bool> out(own.ranks(), false);
    for (const size_t r : all) {
      out[r] = true;
    }
    if (const double lost = saving(own, window, out); lost > best.lost_s) {
      best = {.ranks = all, .host = true, .lost_s = lost};
    }
  }
  return best;
}

}  // namespace

size_t known_steps(const OwnTimes& own, StepWindow window) {
  size_t out = 0;
  for (size_t i = window.first; i < window.last; ++i) {
    const auto step = own.step(i);
    out += std::any_of(step.begin(), step.end(), [](float one) { return one >= 0; }) ? 1 : 0;
  }
  return out;
}

double critical_seconds(const OwnTimes& own, StepWindow window) {
  double sum = 0;
  for (size_t i = window.first; i < window.last; ++i) {
    const auto step = own.step(i);
    sum += std::max(static_cast<double>(*std::max_element(step.begin(), step.end())), 0.0);
  }
  const size_t known = known_steps(own, window);
  return known > 0 ? sum / static_cast<double>(known) : 0;
}

std::optional<Blame> find_blame(const OwnTimes& own, const std::vector<std::string>& hosts,
                                StepWindow window) {
  if (own.ranks() < 2 || known_steps(own, window) < std::min(kLeastKnown, window.size())) {
    return {};
  }
  const double step_s = critical_seconds(own, window);
  const std::vector<size_t> slow = outliers(own, window, step_s);
  if (slow.empty() || step_s <= 0) {
    return {};
  }
  Blame best = blame_ranks(own, window, slow);
  if (Blame host = blame_host(own, window, hosts, slow);
      host.lost_s > kHostFactor * best.lost_s || (best.ranks.size() > 1 && host.lost_s >= best.lost_s)) {
    best = std::move(host);
  }
  best.share = best.lost_s / step_s;
  std::sort(best.ranks.begin(), best.ranks.end());
  return best.share >= kLeastBlame ? std::optional(best) : std::nullopt;
}

bool explains_change(const std::optional<Blame>& before, const Blame& now) {
  if (!before || before->ranks != now.ranks) {
    return true;
  }
  const auto step = [](const Blame& b) { return b.lost_s / b.share; };
  const auto others = [&](const Blame& b) { return std::max(step(b) - b.lost_s, kLeastS); };
  return std::log(others(now) / others(*before)) < kMostOfChange * std::log(step(now) / step(*before));
}

bool have_recovered(const OwnTimes& own, const std::vector<size_t>& ranks, StepWindow before,
                    StepWindow later) {
  const std::vector<double> now = over_others(own, ranks, later);
  if (now.size() < kFewLeads) {
    return false;
  }
  const double centre = median(now);
  const double error = kMedianError * robust_spread(now, centre) / std::sqrt(static_cast<double>(now.size()));
  return centre + kSurely * error < kRecovered * median(over_others(own, ranks, before));
}

}  // namespace xpurun::report
