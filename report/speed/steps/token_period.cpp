#include "report/speed/steps/token_period.h"

#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace xpurun::report {

namespace {

constexpr size_t kMostTokens = 65536;
constexpr size_t kMostCandidates = 24;
constexpr size_t kMostTimes = 8;
constexpr double kLeastMatch = 0.95;
constexpr double kLeastShare = 0.8;  // mean over the kinds of tokens

// Unbiased: the share of comparable positions that are equal; 0 if that holds for frequent tokens only.
double match(std::span<const uint64_t> tokens, size_t period) {
  const size_t pairs = tokens.size() - period;
  size_t equal = 0;
  std::unordered_map<uint64_t, std::pair<size_t, size_t>> each;  // compared, equal
  for (size_t i = 0; i < pairs; ++i) {
    auto& [compared, same] = each[tokens[i]];
    ++compared;
    if (tokens[i] == tokens[i + period]) {
      ++equal;
      ++same;
    }
  }
  double shares = 0;
  for (const auto& [token, counts] : each) {
    shares += static_cast<double>(counts.second) / static_cast<double>(counts.first);
  }
  return shares >= kLeastShare * static_cast<double>(each.size())
             ? static_cast<double>(equal) / static_cast<double>(pairs)
             : 0;
}

// The most frequent distances between neighbouring occurrences of rare tokens: a call that occurs once per
// step shows the period at once.
std::set<size_t> candidates(std::span<const uint64_t> tokens, size_t least_periods) {
  std::unordered_map<uint64_t, std::vector<size_t>> places;
  for (size_t i = 0; i < tokens.size(); ++i) {
    places[tokens[i]].push_back(i);
  }
  std::multimap<size_t, const std::vector<size_t>*> by_count;
  for (const auto& [token, at] : places) {
    if (at.size() >= least_periods) {
      by_count.emplace(at.size(), &at);
    }
  }
  std::set<size_t> out;
  for (const auto& [count, at] : by_count) {
    // A token that occurs several times per step returns to the same place of the step after as many
    // occurrences.
    for (size_t times = 1; times <= kMostTimes && times < at->size(); ++times) {
      std::map<size_t, size_t> gaps;
      for (size_t i = times; i < at->size(); ++i) {
        ++gaps[(*at)[i] - (*at)[i - times]];
      }
      const auto most = std::max_element(gaps.begin(), gaps.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      out.insert(most->first);
    }
    if (out.size() >= kMostCandidates) {
      break;
    }
  }
  return out;
}

}  // namespace

TokenPeriod find_period(std::span<const uint64_t> tokens, size_t least_periods) {
  tokens = tokens.last(std::min(tokens.size(), kMostTokens));
  TokenPeriod best;
  for (const size_t length : candidates(tokens, least_periods)) {
    if (length * least_periods > tokens.size()) {
      continue;
    }
    if (const double equal = match(tokens, length); equal >= kLeastMatch) {
      best = {length, equal};
      break;
    }
  }
  for (size_t part = 1; part <= best.length / 2; ++part) {
    if (best.length % part == 0) {
      if (const double equal = match(tokens, part); equal >= kLeastMatch) {
        return {part, equal};
      }
    }
  }
  return best;
}

std::string repeating_words(const TokenPeriod& period) {
  return period.length == 1 ? std::string("inferred from a collective that repeats")
                            : fmt::format("inferred from {} collectives that repeat ({:.0f} % alike)",
                                          period.length, 100 * period.match);
}

CallCycle find_cycle(const std::vector<SequenceCall>& calls) {
  std::vector<uint64_t> tokens;
  for (const SequenceCall& call : calls) {
    tokens.push_back(call.token);
  }
  CallCycle out{.period = find_period(tokens)};
  std::vector<std::vector<double>> pauses(out.period.length);
  for (size_t i = 0; i + 1 < calls.size() && !pauses.empty(); ++i) {
    pauses[i % pauses.size()].push_back(static_cast<double>(calls[i + 1].begin_ns - calls[i].end_ns));
  }
  std::vector<double> medians;
  for (std::vector<double>& one : pauses) {
    medians.push_back(median(std::move(one)));
  }
  out.phase = static_cast<size_t>(std::max_element(medians.begin(), medians.end()) - medians.begin());
  return out;
}

}  // namespace xpurun::report
