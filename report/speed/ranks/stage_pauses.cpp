#include "report/speed/ranks/stage_pauses.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace xpurun::report {

namespace {

using model::Stage;

constexpr double kShortestS = 1e-3;
constexpr double kShortest = 0.05;     // of a usual step; shorter pauses do not count
constexpr double kLeastShare = 0.005;  // of the time, unless a pause is longer than a step
constexpr size_t kLeastCompared = 3;   // pauses of a rank
constexpr size_t kLeastAround = 5;     // pauses
constexpr double kAround = 1.5;
constexpr double kLeastPauseRatio = 1.3;
constexpr double kLeastPauseErrors = 5;  // standard errors of the mean logarithm

// The time of each rank in the stage, by step that has a pause.
struct Pauses {
  std::vector<size_t> steps;
  std::vector<std::vector<double>> seconds;  // by pause, then rank; 0: none
};

Pauses find_pauses(const JobSteps& job, Stage stage, double least_s) {
  Pauses out;
  for (size_t i = 0; i < job.steps(); ++i) {
    std::vector<double> one(job.ranks(), 0);
    bool any = false;
    for (size_t r = 0; r < job.ranks(); ++r) {
      const StepRecord* step = job.at(r, i);
      const double seconds =
          step == nullptr ? 0 : static_cast<double>(step->stage_ns[static_cast<size_t>(stage)]) * 1e-9;
      one[r] = seconds >= least_s ? seconds : 0;
      any = any || one[r] > 0;
    }
    if (any) {
      out.steps.push_back(i);
      out.seconds.push_back(std::move(one));
    }
  }
  return out;
}

double longest_step_s(const JobSteps& job, size_t i) {
  int64_t longest = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    const StepRecord* step = job.at(r, i);
    longest = std::max(longest, step == nullptr ? 0 : step->duration_ns);
  }
  return static_cast<double>(longest) * 1e-9;
}

double all_seconds(const JobSteps& job) {
  double out = 0;
  for (size_t i = 0; i < job.steps(); ++i) {
    out += longest_step_s(job, i);
  }
  return out;
}

// What steps with a checkpoint take more than a usual one, where that is far more than the call that writes:
// the program does more beside it, such as checking what it wrote. Empty elsewhere.
std::vector<double> added_around(const JobSteps& job, const Pauses& pauses, double step_s, double call_s) {
  std::vector<double> out;
  for (const size_t i : pauses.steps) {
    out.push_back(longest_step_s(job, i) - step_s);
  }
  const bool more = out.size() >= kLeastAround && quantile(out, 0.5) >= kAround * call_s;
  return more ? out : std::vector<double>();
}

// How a rank compares with the others in the same pauses: mean logarithm of its time over their median.
struct Compared {
  size_t count = 0;
  double mean = 0;
  double squares = 0;  // of the distances from the mean
};

Compared compare(const Pauses& pauses, size_t rank) {
  std::vector<double> logs;
  for (const std::vector<double>& seconds : pauses.seconds) {
    std::vector<double> others;
    for (size_t r = 0; r < seconds.size(); ++r) {
      if (r != rank && seconds[r] > 0) {
        others.push_back(seconds[r]);
      }
    }
    if (seconds[rank] > 0 && !others.empty()) {
      logs.push_back(std::log(seconds[rank] / quantile(others, 0.5)));
    }
  }
  Compared out{.count = logs.size()};
  for (const double one : logs) {
    out.mean += one / static_cast<double>(logs.size());
  }
  for (const double one : logs) {
    out.squares += (one - out.mean) * (one - out.mean);
  }
  return out;
}

// The spread of a single pause is taken from all ranks together: one rank has few pauses.
std::vector<size_t> slow_ranks(const Pauses& pauses, size_t ranks) {
  std::vector<Compared> all;
  double squares = 0;
  double freedom = 0;
  for (size_t r = 0; r < ranks; ++r) {
    all.push_back(compare(pauses, r));
    squares += all.back().squares;
    freedom += all.back().count > 1 ? static_cast<double>(all.back().count - 1) : 0;
  }
  const double spread = freedom > 0 ? std::sqrt(squares / freedom) : 0;
  std::vector<size_t> out;
  for (size_t r = 0; r < ranks; ++r) {
    const double error = spread / std::sqrt(static_cast<double>(std::max<size_t>(all[r].count, 1)));
    if (all[r].count >= kLeastCompared && all[r].mean >= std::log(kLeastPauseRatio) &&
        all[r].mean >= kLeastPauseErrors * error) {
      out.push_back(r);
    }
  }
  return 2 * out.size() <= ranks ? out : std::vector<size_t>();
}

void put_slow(const JobSteps& job, const Pauses& pauses, model::StagePause& out) {
  const std::vector<size_t> slow = slow_ranks(pauses, job.ranks());
  std::vector<double> theirs;
  std::vector<double> others;
  for (const std::vector<double>& seconds : pauses.seconds) {
    for (size_t r = 0; r < seconds.size(); ++r) {
      if (seconds[r] > 0) {
        (std::binary_search(slow.begin(), slow.end(), r) ? theirs : others).push_back(seconds[r]);
      }
    }
  }
  for (const size_t r : slow) {
    out.slow.insert(job.rank(r).rank);
  }
  out.slow_s = slow.empty() ? 0 : quantile(theirs, 0.5);
  out.others_s = slow.empty() ? 0 : quantile(others, 0.5);
}

// The rank that spends most time in the stage says where.
void put_place(const JobSteps& job, const Pauses& pauses, model::StagePause& out) {
  std::vector<double> totals(job.ranks(), 0);
  for (const std::vector<double>& seconds : pauses.seconds) {
    for (size_t r = 0; r < seconds.size(); ++r) {
      totals[r] += seconds[r];
    }
  }
  for (size_t r = 0; r < totals.size(); ++r) {
    if (totals[r] > 0) {
      out.ranks.insert(job.rank(r).rank);
    }
  }
  const auto most = static_cast<size_t>(std::max_element(totals.begin(), totals.end()) - totals.begin());
  out.name = job.rank(most).names[static_cast<size_t>(out.stage)];
  out.place = job.rank(most).places[static_cast<size_t>(out.stage)];
}

std::optional<model::StagePause> pause_of(const JobSteps& job, Stage stage, double step_s, double all_s) {
  const Pauses pauses = find_pauses(job, stage, std::max(kShortestS, kShortest * step_s));
  if (pauses.steps.empty() || all_s <= 0) {
    return std::nullopt;
  }
  model::StagePause out{.stage = stage, .count = static_cast<int64_t>(pauses.steps.size())};
  std::vector<double> longest;
  for (const std::vector<double>& seconds : pauses.seconds) {
    longest.push_back(*std::max_element(seconds.begin(), seconds.end()));
  }
  const double call_s = quantile(longest, 0.5);
  if (auto added = added_around(job, pauses, step_s, call_s); stage == Stage::checkpoint && !added.empty()) {
    longest = std::move(added);
    out.call_s = call_s;
  }
  out.longest_s = *std::max_element(longest.begin(), longest.end());
  out.share = std::clamp(std::accumulate(longest.begin(), longest.end(), 0.0) / all_s, 0.0, 1.0);
  if (out.share < kLeastShare && out.longest_s < step_s) {
    return std::nullopt;
  }
  out.median_s = quantile(longest, 0.5);
  std::vector<double> distances;
  for (size_t i = 1; i < pauses.steps.size(); ++i) {
    distances.push_back(static_cast<double>(pauses.steps[i] - pauses.steps[i - 1]));
  }
  out.every = std::llround(quantile(distances, 0.5));
  put_place(job, pauses, out);
  put_slow(job, pauses, out);
  return out;
}

}  // namespace

std::vector<model::StagePause> stage_pauses(const JobSteps& job, double step_s) {
  std::vector<model::StagePause> out;
  const double all_s = all_seconds(job);
  for (const Stage stage : {Stage::checkpoint, Stage::evaluation}) {
    if (auto pause = pause_of(job, stage, step_s, all_s)) {
      out.push_back(std::move(*pause));
    }
  }
  return out;
}

}  // namespace xpurun::report
