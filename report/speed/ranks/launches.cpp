#include "report/speed/ranks/launches.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

// Neighbouring calls are alike, so the error of a mean is taken from parts of the time.
constexpr size_t kBlocks = 16;
constexpr size_t kLeastCalls = 4 * kBlocks;
constexpr double kResolution = 1e-6;  // of the recorded delays
constexpr double kLeastRatio = 4;     // of the others' delay over that of a starved rank
constexpr double kLeastErrors = 6;
constexpr double kLeastSpreads = 4;      // of the other ranks
constexpr double kLeastUsual = 50e-6;    // below it, the others' queues are empty too
constexpr double kMostStarved = 100e-6;  // above it, the queue is not empty: another rank has a very long one

// Of the logarithm of the delay.
struct Level {
  double mean = 0;
  double error = 0;
};

Level level_of(const std::vector<TimedSample>& samples) {
  std::vector<double> means;
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t first = block * samples.size() / kBlocks;
    const size_t last = (block + 1) * samples.size() / kBlocks;
    double sum = 0;
    for (size_t i = first; i < last; ++i) {
      sum += std::log(samples[i].seconds + kResolution);
    }
    means.push_back(sum / static_cast<double>(last - first));
  }
  Level out;
  for (const double one : means) {
    out.mean += one / kBlocks;
  }
  double squares = 0;
  for (const double one : means) {
    squares += (one - out.mean) * (one - out.mean);
  }
  out.error = std::sqrt(squares / (kBlocks * (kBlocks - 1)));
  return out;
}

model::RankLaunches launches_of(base::Rank rank, const std::vector<TimedSample>& samples) {
  std::vector<double> delays;
  double sum = 0;
  for (const TimedSample& one : samples) {
    delays.push_back(one.seconds);
    sum += one.seconds;
  }
  return {.rank = rank,
          .calls = static_cast<int64_t>(delays.size()),
          .mean_s = sum / static_cast<double>(delays.size()),
          .median_s = quantile(delays, 0.5),
          .p99_s = quantile(delays, 0.99)};
}

bool is_starved(const std::vector<Level>& levels, size_t rank) {
  std::vector<double> means;
  std::vector<double> errors;
  for (size_t r = 0; r < levels.size(); ++r) {
    if (r != rank) {
      means.push_back(levels[r].mean);
      errors.push_back(levels[r].error);
    }
  }
  if (means.empty()) {
    return false;
  }
  const double usual = quantile(means, 0.5);
  const double below = usual - levels[rank].mean;
  const double error = std::hypot(levels[rank].error, quantile(errors, 0.5));
  return levels[rank].mean <= std::log(kMostStarved) && usual >= std::log(kLeastUsual) &&
         below >= std::log(kLeastRatio) && below >= kLeastErrors * error &&
         below >= kLeastSpreads * robust_spread(means, usual);
}

}  // namespace

std::vector<TimedSample> samples_within(const std::vector<TimedSample>& samples, const JobSteps& job,
                                        size_t rank, StepWindow window) {
  const StepRecord* first = job.at(rank, window.first);
  const StepRecord* after = job.at(rank, window.last);
  std::vector<TimedSample> out;
  for (const TimedSample& one : samples) {
    if (first != nullptr && one.at_ns >= first->begin_ns &&
        (after == nullptr || one.at_ns < after->begin_ns)) {
      out.push_back(one);
    }
  }
  return out;
}

std::vector<model::RankLaunches> rank_launches(const JobSteps& job, StepWindow window) {
  std::vector<model::RankLaunches> out;
  std::vector<size_t> compared;  // indexes into `out`
  std::vector<Level> levels;
  for (size_t r = 0; r < job.ranks(); ++r) {
    std::vector<TimedSample> samples = samples_within(job.rank(r).launch_delays, job, r, window);
    if (samples.empty()) {
      continue;
    }
    std::sort(samples.begin(), samples.end(),
              [](const TimedSample& a, const TimedSample& b) { return a.at_ns < b.at_ns; });
    out.push_back(launches_of(job.rank(r).rank, samples));
    if (samples.size() >= kLeastCalls) {
      compared.push_back(out.size() - 1);
      levels.push_back(level_of(samples));
    }
  }
  std::vector<size_t> starved;
  for (size_t i = 0; i < compared.size(); ++i) {
    if (is_starved(levels, i)) {
      starved.push_back(compared[i]);
    }
  }
  for (const size_t i : 2 * starved.size() <= compared.size() ? starved : std::vector<size_t>()) {
    out[i].starved = true;
  }
  return out;
}

}  // namespace xpurun::report
