#include "report/profile/captured_functions.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/profile/function_stacks.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

namespace xpurun::report {

namespace {

constexpr double kLeastShare = 0.01;
constexpr double kLeastExcess = 0.05;
constexpr double kStandardErrors = 5;
constexpr double kSpreads = 4;
constexpr double kAlikeSamples = 3;  // neighbouring samples that count as one
constexpr size_t kMostFunctions = 200;

struct Key {
  std::string function;
  std::string file;
  bool worker = false;

  auto operator<=>(const Key&) const = default;
};

// Samples of `own` in one line.
struct OfLine {
  uint64_t own = 0;
  uint64_t waiting = 0;
};

// Samples of one rank in one function.
struct Seen {
  uint64_t total = 0;
  uint64_t own = 0;
  uint64_t waiting = 0;  // of `own`
  uint64_t idle = 0;     // of `own`: no work was running on the GPU
  std::map<int, uint64_t> lines;
  std::map<int, OfLine> own_lines;
};

struct Group {  // the processes of one rank, or its workers
  uint64_t samples = 0;
  uint64_t with_gpu = 0;  // of them, while the activity of the GPU was recorded
  std::map<Key, Seen> functions;
};

using Groups = std::map<std::pair<bool, base::Rank>, Group>;

// Collectives wait for the ranks that come later, and so does the backward pass, which has collectives.
bool may_wait_for_others(const ProfileFrame& f) {
  return f.file.find("/torch/distributed/") != std::string::npos ||
         f.file.find("/torch/autograd/") != std::string::npos;
}

struct StackSamples {
  uint64_t all = 0;
  uint64_t idle = 0;
};

void add_stack(const Profile& p, const ProfileTrack::Stack& stack, const StackSamples& samples, bool worker,
               Group& group) {
  std::set<Key> seen;
  bool owner_found = false;
  const bool waiting = !stack.empty() && may_wait_for_others(p.frames[stack.back()]);
  for (auto it = stack.rbegin(); it != stack.rend(); ++it) {
    const ProfileFrame& frame = p.frames[*it];
    const Key key{frame.function, frame.file, worker};
    Seen& sum = group.functions[key];
    if (!owner_found && is_own_code(frame)) {
      owner_found = true;
      sum.own += samples.all;
      sum.waiting += waiting ? samples.all : 0;
      sum.idle += samples.idle;
      OfLine& line = sum.own_lines[frame.line];
      line.own += samples.all;
      line.waiting += waiting ? samples.all : 0;
    }
    if (seen.insert(key).second) {
      sum.total += samples.all;
      sum.lines[frame.line] += samples.all;
    }
  }
}

Groups groups_of(const Profile& p) {
  Groups out;
  for (const ProfileTrack& track : p.tracks) {
    if (track.rank == base::kNoRank) {
      continue;
    }
    Group& group = out[{track.worker, track.rank}];
    group.with_gpu += track.with_gpu;
    for (const auto& [stack, samples] : track.stacks) {
      group.samples += samples;
      const auto idle = track.idle.find(stack);
      add_stack(p, stack, {.all = samples, .idle = idle == track.idle.end() ? 0 : idle->second}, track.worker,
                group);
    }
  }
  return out;
}

double standard_error(double share, double samples) {
  // With no sample or all samples in the function, the share is not certain either.
  const double p = std::clamp(share, 1 / (samples + 2), 1 - 1 / (samples + 2));
  return std::sqrt(p * (1 - p) * kAlikeSamples / samples);
}

// The share of each rank in one function.
struct Share {
  base::Rank rank;
  double share;
  double samples;
};

bool stands_out(const std::vector<Share>& shares, size_t i, const RankRoles& roles) {
  std::vector<double> others;
  double samples = 0;
  for (size_t k = 0; k < shares.size(); ++k) {
    if (k != i && roles.may_compare(shares[i].rank, shares[k].rank)) {
      others.push_back(shares[k].share);
      samples += shares[k].samples;
    }
  }
  if (others.empty()) {
    return false;
  }
  const double usual = median(others);
  const double spread = robust_spread(others, usual);
  const double error =
      std::hypot(standard_error(shares[i].share, shares[i].samples), standard_error(usual, samples));
  return shares[i].share - usual > std::max({kLeastExcess, kStandardErrors * error, kSpreads * spread});
}

model::RankSet outliers(const std::vector<Share>& shares, const RankRoles& roles) {
  model::RankSet out;
  size_t count = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (stands_out(shares, i, roles)) {
      out.insert(shares[i].rank);
      ++count;
    }
  }
  return count * 2 < shares.size() || (count == 1 && shares.size() == 2) ? out : model::RankSet();
}

int usual_line(const std::map<int, uint64_t>& lines) {
  const auto most = std::max_element(lines.begin(), lines.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == lines.end() ? 0 : most->first;
}

// Sets the shares of the time in which the function itself was running and the GPU had no work.
void put_paths(model::CapturedFunction& out, const Key& key, const Groups& groups) {
  std::vector<double> all;
  std::vector<double> slow;
  std::vector<double> usual;
  for (const auto& [who, group] : groups) {
    if (who.first || key.worker || group.with_gpu == 0) {
      continue;
    }
    const auto seen = group.functions.find(key);
    const double share = seen == group.functions.end()
                             ? 0
                             : static_cast<double>(seen->second.idle) / static_cast<double>(group.with_gpu);
    all.push_back(share);
    (out.ranks.contains(who.second) ? slow : usual).push_back(share);
  }
  if (!all.empty()) {
    out.path = usual.empty() ? -1 : mean(usual);
    out.ranks_path = slow.empty() ? -1 : mean(slow);
    out.path_spread = deviation(all);
  }
}

model::CapturedFunction function_time(const Key& key, const Groups& groups, const RankRoles& roles) {
  model::CapturedFunction out{.function = key.function, .file = key.file, .worker = key.worker};
  std::vector<Share> totals;
  std::vector<Share> owns;
  for (const auto& [who, group] : groups) {
    if (who.first == key.worker && group.samples > 0) {
      const auto seen = group.functions.find(key);
      const bool any = seen != group.functions.end();
      const auto samples = static_cast<double>(group.samples);
      totals.push_back({who.second, any ? static_cast<double>(seen->second.total) / samples : 0, samples});
      owns.push_back({who.second, any ? static_cast<double>(seen->second.own) / samples : 0, samples});
    }
  }
  // The function that calls library code is of interest, not its callers; a library function has no own time.
  out.ranks = outliers(owns, roles);
  if (out.ranks.empty()) {
    out.ranks = outliers(totals, roles);
  }
  std::map<int, uint64_t> lines;
  uint64_t own = 0;
  uint64_t waiting = 0;
  for (const auto& [who, group] : groups) {
    if (const auto seen = group.functions.find(key);
        seen != group.functions.end() && (out.ranks.empty() || out.ranks.contains(who.second))) {
      own += seen->second.own;
      waiting += seen->second.waiting;
      for (const auto& [line, samples] : seen->second.lines) {
        lines[line] += samples;
      }
    }
  }
  out.line = usual_line(lines);
  out.waits = own > 0 ? 2 * waiting > own : may_wait_for_others({.file = key.file});
  std::vector<double> shares;
  const auto slow = static_cast<double>(out.ranks.size());
  const double usual = static_cast<double>(totals.size()) - slow;
  for (size_t i = 0; i < totals.size(); ++i) {
    const bool is_slow = out.ranks.contains(totals[i].rank);
    (is_slow ? out.ranks_total : out.total) += totals[i].share / (is_slow ? slow : usual);
    (is_slow ? out.ranks_own : out.own) += owns[i].share / (is_slow ? slow : usual);
    shares.push_back(totals[i].share);
  }
  out.spread = deviation(shares);
  put_paths(out, key, groups);
  return out;
}

// The share of a function's line in the own time.
model::CapturedFunction line_time(const Key& key, int line, const Groups& groups, const RankRoles& roles) {
  model::CapturedFunction out{
      .function = key.function, .file = key.file, .line = line, .by_line = true, .worker = key.worker};
  std::vector<Share> owns;
  OfLine sum;
  for (const auto& [who, group] : groups) {
    if (who.first != key.worker || group.samples == 0) {
      continue;
    }
    OfLine here;
    if (const auto seen = group.functions.find(key); seen != group.functions.end()) {
      const auto known = seen->second.own_lines.find(line);
      here = known == seen->second.own_lines.end() ? OfLine() : known->second;
    }
    sum.own += here.own;
    sum.waiting += here.waiting;
    const auto samples = static_cast<double>(group.samples);
    owns.push_back({who.second, static_cast<double>(here.own) / samples, samples});
  }
  out.ranks = outliers(owns, roles);
  out.waits = 2 * sum.waiting > sum.own;
  std::vector<double> shares;
  const auto slow = static_cast<double>(out.ranks.size());
  for (const Share& one : owns) {
    const bool is_slow = out.ranks.contains(one.rank);
    (is_slow ? out.ranks_own : out.own) +=
        one.share / (is_slow ? slow : static_cast<double>(owns.size()) - slow);
    shares.push_back(one.share);
  }
  out.total = out.own;
  out.ranks_total = out.ranks_own;
  out.spread = deviation(shares);
  return out;
}

// Ranks that spend as long in a function may do so in different lines.
void add_lines(const Key& key, const Groups& groups, const RankRoles& roles,
               std::vector<model::CapturedFunction>& out) {
  std::set<int> lines;
  for (const auto& [who, group] : groups) {
    if (const auto seen = group.functions.find(key); seen != group.functions.end()) {
      for (const auto& [line, samples] : seen->second.own_lines) {
        if (static_cast<double>(samples.own) >= kLeastExcess * static_cast<double>(group.samples)) {
          lines.insert(line);
        }
      }
    }
  }
  for (const int line : lines.size() > 1 ? lines : std::set<int>()) {
    if (auto row = line_time(key, line, groups, roles); !row.ranks.empty()) {
      out.push_back(std::move(row));
    }
  }
}

double excess(const model::CapturedFunction& f) {
  return f.ranks.empty() ? 0 : f.ranks_own - f.own;
}

}  // namespace

// Ranks that wait for a slow one stand out too: the function in which they wait.
std::string capture_sentence(const model::CaptureReport& c) {
  std::string out;
  std::vector<model::RankSet> named;
  for (const model::CapturedFunction& f : c.functions) {
    if (excess(f) >= kLeastExcess && named.size() < 2 &&
        std::find(named.begin(), named.end(), f.ranks) == named.end()) {
      named.push_back(f.ranks);
      out += (out.empty() ? "" : base::tr("; ")) + ranks_excess(f);
    }
  }
  return out.empty() && c.ranks.size() > 1 ? base::tr("no rank spends its time differently from the others")
                                           : out;
}

model::CaptureReport captured_functions(const Profile& profile, const RankRoles& roles) {
  model::CaptureReport out{.reason = profile.reason,
                           .wall_ns = profile.wall_ns,
                           .seconds = profile.seconds,
                           .samples = profile.samples(),
                           .ranks = profile.ranks(),
                           .notes = profile.notes};
  const Groups groups = groups_of(profile);
  std::set<Key> keys;
  for (const auto& [who, group] : groups) {
    for (const auto& [key, seen] : group.functions) {
      if (static_cast<double>(seen.total) >= kLeastShare * static_cast<double>(group.samples)) {
        keys.insert(key);
      }
    }
  }
  for (const Key& key : keys) {
    out.functions.push_back(function_time(key, groups, roles));
    if (out.functions.back().ranks.empty()) {
      add_lines(key, groups, roles, out.functions);
    }
  }
  // Workers that are alike mostly wait for work, with all of their time.
  const auto counts = [](const model::CapturedFunction& f) {
    return !f.waits && !(f.worker && f.ranks.empty());
  };
  std::stable_sort(out.functions.begin(), out.functions.end(), [&counts](const auto& a, const auto& b) {
    return std::tuple(counts(a), excess(a), a.own, a.total) >
           std::tuple(counts(b), excess(b), b.own, b.total);
  });
  if (out.functions.size() > kMostFunctions) {
    out.functions.resize(kMostFunctions);
  }
  set_stacks(out.functions, profile);
  out.sentence = capture_sentence(out);
  return out;
}

std::string_view capture_reason(std::string_view reason) {
  return reason == "slow"      ? base::later(", when the job had become slower")
         : reason == "silence" ? base::later(", when no step had ended for long")
                               : "";
}

std::string place_of(const model::CapturedFunction& f) {
  const std::string file(model::source_name(f.file));
  return f.line > 0 ? fmt::format("{} ({}:{})", f.function, file, f.line)
                    : fmt::format("{} ({})", f.function, file);
}

std::string excess_words(const model::CapturedFunction& f) {
  const bool one = f.ranks.size() == 1;
  const auto percent = [](double share) { return std::lround(100 * share); };
  return base::tr(
      "{} {} % of {} time{} in {}, the others {} %",
      f.waits ? (one ? base::tr("waits or computes gradients") : base::tr("wait or compute gradients"))
      : one   ? base::tr("spends")
              : base::tr("spend"),
      percent(f.ranks_own), one ? "its" : "their",
      !f.worker ? ""
      : one     ? base::tr(" (that of its workers)")
                : base::tr(" (that of their workers)"),
      place_of(f), percent(f.own));
}

std::string ranks_excess(const model::CapturedFunction& f) {
  const bool one = f.ranks.size() == 1;
  const std::string ranks = f.ranks.text();
  return (one ? base::tr("rank {}", ranks) : base::tr("ranks {}", ranks)) + " " + excess_words(f);
}

const model::CapturedFunction* blamed_function(const model::CaptureReport& capture,
                                               const model::RankSet& ranks) {
  for (const model::CapturedFunction& f : capture.functions) {
    if (excess(f) >= kLeastExcess && f.ranks.minus(ranks).empty()) {
      return &f;
    }
  }
  return nullptr;
}

}  // namespace xpurun::report
