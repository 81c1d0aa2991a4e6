#include "report/speed/steps/token_period.h"

#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

namespace xpurun::report {

namespace {

constexpr size_t kMostTokens = 65536;
constexpr size_t kMostCandidates = 24;
constexpr size_t kMostTimes = 8;
constexpr double kLeastMatch = 0.95;
constexpr size_t kRare = 8;          // times rarer than the next kind of call: not made in every step
constexpr double kLongPause = 1.5;   // times the others: a step ends
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

std::optional<size_t> CyclePosition::take(uint64_t token) {
  const size_t length = cycle_.size();
  std::optional<size_t> at;
  for (size_t i = 0; i < length && !at; ++i) {
    const size_t candidate = (next_ + i) % length;
    // The expected call, or else the first one that follows the same call.
    const bool follows = i == 0 || cycle_[(candidate + length - 1) % length] == last_;
    at = cycle_[candidate] == token && follows ? std::optional(candidate) : std::nullopt;
  }
  if (!at) {
    const auto found = std::find(cycle_.begin(), cycle_.end(), token);
    if (found == cycle_.end()) {
      return std::nullopt;
    }
    at = static_cast<size_t>(found - cycle_.begin());
  }
  next_ = (*at + 1) % length;
  last_ = token;
  return at;
}

namespace {

// The first calls from `from` on that are the same as those of the next period; empty: none.
std::vector<uint64_t> repeated_from(const std::vector<uint64_t>& tokens, size_t from, size_t length) {
  for (size_t i = from; i + 2 * length <= tokens.size(); ++i) {
    const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    const auto after = at + static_cast<std::ptrdiff_t>(length);
    if (std::equal(at, after, after)) {
      return {at, after};
    }
  }
  return {};
}

// The calls of one period. The program may repeat other calls at its begin or its end: of periods from all
// parts of the run, the one whose calls are most frequent.
std::vector<uint64_t> one_period(const std::vector<uint64_t>& tokens, size_t length) {
  constexpr size_t kParts = 8;
  std::vector<uint64_t> best(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(length));
  std::ptrdiff_t most = 0;
  for (size_t part = 0; part < kParts; ++part) {
    std::vector<uint64_t> one = repeated_from(tokens, part * tokens.size() / kParts, length);
    const std::set<uint64_t> kinds(one.begin(), one.end());
    const auto count =
        std::count_if(tokens.begin(), tokens.end(), [&](uint64_t t) { return kinds.contains(t); });
    if (count > most) {
      most = count;
      best = std::move(one);
    }
  }
  return best;
}

// The median pause after each call of the cycle.
std::vector<double> pauses_after(const std::vector<SequenceCall>& calls, const std::vector<uint64_t>& cycle) {
  std::vector<std::vector<double>> pauses(cycle.size());
  CyclePosition position(cycle);
  for (size_t i = 0; i + 1 < calls.size(); ++i) {
    if (const auto at = position.take(calls[i].token)) {
      pauses[*at].push_back(static_cast<double>(calls[i + 1].begin_ns - calls[i].end_ns));
    }
  }
  std::vector<double> out;
  for (std::vector<double>& one : pauses) {
    out.push_back(median(std::move(one)));
  }
  return out;
}

// The calls without the kinds that are made at least kRare times less often than the next one: none of them,
// the rarest, and so on.
std::vector<std::vector<uint64_t>> without_rare(const std::vector<uint64_t>& tokens) {
  std::unordered_map<uint64_t, size_t> counts;
  for (const uint64_t token : tokens) {
    ++counts[token];
  }
  std::vector<size_t> sorted;
  for (const auto& [token, count] : counts) {
    sorted.push_back(count);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::vector<uint64_t>> out{tokens};
  for (size_t i = 0; i + 1 < sorted.size(); ++i) {
    if (sorted[i + 1] >= kRare * sorted[i]) {
      std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(out.emplace_back()),
                   [&](uint64_t token) { return counts[token] > sorted[i]; });
    }
  }
  return out;
}

// The most frequent number, modulo the length of the cycle, of the calls that end it.
size_t phase_of(const std::vector<uint64_t>& tokens, const std::vector<uint64_t>& cycle) {
  std::vector<size_t> counts(cycle.size());
  CyclePosition position(cycle);
  for (size_t i = 0; i < tokens.size(); ++i) {
    counts[i % cycle.size()] += position.take(tokens[i]) == cycle.size() - 1 ? 1 : 0;
  }
  return static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// Whether the pauses after the calls of a cycle show no end of a longer step than one of `parts` steps: no
// pause is longer than those after a quarter of these steps.
bool are_steps_alike(std::vector<double> pauses, size_t parts) {
  std::sort(pauses.begin(), pauses.end(), std::greater<>());
  return pauses.front() <= kLongPause * pauses[parts / 4];
}

}  // namespace

CallCycle find_cycle(const std::vector<SequenceCall>& calls, size_t least) {
  std::vector<uint64_t> tokens;
  for (const SequenceCall& call : calls) {
    tokens.push_back(call.token);
  }
  CallCycle out;
  std::vector<double> pauses;
  for (const std::vector<uint64_t>& kept : without_rare(tokens)) {
    const bool known = out.period.length >= least;
    if (known && least > 1) {
      break;
    }
    const TokenPeriod found = find_period(kept);
    const size_t parts = found.length > 0 ? out.period.length / found.length : 0;
    if (found.length > 0 && (!known || (parts >= kRare && are_steps_alike(pauses, parts)))) {
      out.period = found;
      out.rare_calls = kept.size() < tokens.size();
      out.tokens = one_period(kept, found.length);
      pauses = pauses_after(calls, out.tokens);
    }
  }
  if (out.period.length > 0) {
    const auto last = std::max_element(pauses.begin(), pauses.end()) - pauses.begin();
    std::rotate(out.tokens.begin(), out.tokens.begin() + last + 1, out.tokens.end());
    out.phase = phase_of(tokens, out.tokens);
  }
  return out;
}

}  // namespace xpurun::report
