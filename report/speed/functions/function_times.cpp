#include "report/speed/functions/function_times.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/steps/rank_spans.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using model::FunctionOfRank;
using model::FunctionTimes;
using model::Span;
using model::Stage;

constexpr int64_t kLeastCalls = 5;      // of a rank that is compared
constexpr double kLeastRatio = 1.25;    // of an outlier's mean to the others'
constexpr double kFewRatio = 1.5;       // the same, where the others are too few to have a spread
constexpr double kLeastExcessS = 2e-5;  // of a call
constexpr double kDeviations = 4;
constexpr size_t kFewRanks = 4;

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

// What is inferred lies across the calls of functions; a mark has no duration.
bool nests(Stage stage) {
  return stage != Stage::forward && stage != Stage::evaluation && stage != Stage::mark;
}

struct Open {
  const Span* span;
  int64_t inner_ns;  // in spans directly inside
};

class Calls {
 public:
  explicit Calls(const RankSpans& all) : all_(all) {}

  void open(const Span& span) {
    std::vector<Open>& open = open_[span.thread];
    close_until(open, span.begin_ns);
    if (!open.empty()) {
      open.back().inner_ns += std::min(end_of(span), end_of(*open.back().span)) - span.begin_ns;
    }
    open.push_back({&span, 0});
  }

  std::map<uint32_t, FunctionOfRank> finish() {
    for (auto& [thread, open] : open_) {
      close_until(open, INT64_MAX);
    }
    for (const model::ShortCalls& calls : all_.short_calls) {
      FunctionOfRank& f = functions_[calls.name];
      f.calls += static_cast<int64_t>(calls.calls);
      f.short_calls += static_cast<int64_t>(calls.calls);
      f.total_s += seconds_of(calls.total_ns);
      f.self_s += seconds_of(calls.total_ns);
    }
    for (auto& [name, f] : functions_) {
      f.mean_s = f.calls > 0 ? f.total_s / static_cast<double>(f.calls) : 0;
      f.p99_s = p99_of(f, durations_[name]);
    }
    return std::move(functions_);
  }

 private:
  void close_until(std::vector<Open>& open, int64_t time) {
    while (!open.empty() && end_of(*open.back().span) <= time) {
      const Open top = open.back();
      open.pop_back();
      if (top.span->stage != Stage::function) {
        continue;
      }
      FunctionOfRank& f = functions_[top.span->name];
      const double seconds = seconds_of(top.span->duration_ns);
      ++f.calls;
      f.total_s += seconds;
      f.self_s += seconds_of(std::max<int64_t>(top.span->duration_ns - top.inner_ns, 0));
      f.longest_s = std::max(f.longest_s, seconds);
      durations_[top.span->name].push_back(seconds);
    }
  }

  // The short calls are shorter than all others.
  static double p99_of(const FunctionOfRank& f, std::vector<double>& durations) {
    const double at = 0.99 * static_cast<double>(f.calls) - static_cast<double>(f.short_calls);
    if (durations.empty() || at < 0) {
      return -1;
    }
    return quantile(durations, std::min(at / static_cast<double>(durations.size()), 1.0));
  }

  const RankSpans& all_;
  std::map<uint32_t, std::vector<Open>> open_;  // by thread
  std::map<uint32_t, FunctionOfRank> functions_;
  std::map<uint32_t, std::vector<double>> durations_;
};

void find_outliers(FunctionTimes& f) {
  std::vector<const FunctionOfRank*> compared;
  for (const FunctionOfRank& rank : f.ranks) {
    if (rank.calls >= kLeastCalls) {
      compared.push_back(&rank);
    }
  }
  for (const FunctionOfRank* rank : compared) {
    std::vector<double> others;
    for (const FunctionOfRank* other : compared) {
      if (other != rank) {
        others.push_back(other->mean_s);
      }
    }
    if (others.empty()) {
      return;
    }
    const double usual = median(others);
    const bool few = compared.size() < kFewRanks;
    const double excess = rank->mean_s - usual;
    if (rank->mean_s >= usual * (few ? kFewRatio : kLeastRatio) && excess >= kLeastExcessS &&
        (few || excess >= kDeviations * robust_spread(others, usual))) {
      f.outliers.insert(rank->rank);
    }
    if (f.slowest == base::kNoRank || rank->mean_s > f.slowest_mean_s) {
      f.slowest = rank->rank;
      f.slowest_mean_s = rank->mean_s;
      f.others_mean_s = usual;
    }
  }
}

}  // namespace

RankFunctions functions_of(const RankRecord& rank) {
  RankFunctions out{.rank = rank.rank, .functions = {}};
  if (rank.functions.empty()) {
    return out;
  }
  const RankSpans all = join_spans(rank, Functions::with);
  Calls calls(all);
  for (const Span& span : all.spans) {
    if (nests(span.stage)) {
      calls.open(span);
    }
  }
  for (auto& [name, f] : calls.finish()) {
    f.rank = rank.rank;
    out.functions.emplace(all.names[name], f);
  }
  return out;
}

std::vector<FunctionTimes> function_times(const std::vector<RankFunctions>& ranks) {
  std::map<std::string, FunctionTimes> found;
  for (const RankFunctions& rank : ranks) {
    for (const auto& [name, of_rank] : rank.functions) {
      FunctionTimes& f = found[name];
      f.name = name;
      f.calls += of_rank.calls;
      f.total_s += of_rank.total_s;
      f.self_s += of_rank.self_s;
      f.p99_s = std::max(f.p99_s, of_rank.p99_s);
      f.ranks.push_back(of_rank);
    }
  }
  std::vector<FunctionTimes> out;
  for (auto& [name, f] : found) {
    f.mean_s = f.calls > 0 ? f.total_s / static_cast<double>(f.calls) : 0;
    find_outliers(f);
    out.push_back(std::move(f));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.total_s > b.total_s; });
  return out;
}

}  // namespace xpurun::report
