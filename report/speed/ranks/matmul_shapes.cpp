#include "report/speed/ranks/matmul_shapes.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/launches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

namespace xpurun::report {

namespace {

constexpr size_t kLeastOfShape = 3;   // samples
constexpr double kMostOfMedian = 20;  // a sample counts as at most 20 times the median
constexpr double kMostOfRanks = 0.75;

std::vector<double> within(const std::vector<TimedSample>& samples, const JobSteps& job, size_t rank,
                           StepWindow window) {
  std::vector<double> out;
  for (const TimedSample& one : samples_within(samples, job, rank, window)) {
    out.push_back(one.seconds);
  }
  return out;
}

// The mean: on a GPU that is shared, most kernels are as fast as ever.
double capped_mean(std::vector<double>& values) {
  const double most = kMostOfMedian * quantile(values, 0.5);
  double sum = 0;
  for (const double one : values) {
    sum += std::min(one, most);
  }
  return sum / static_cast<double>(values.size());
}

}  // namespace

double slower_shapes(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> times;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      std::vector<double> seconds = within(samples, job, r, window);
      if (seconds.size() >= kLeastOfShape) {
        auto& [slow, others] = times[shape];
        (blamed[r] ? slow : others).push_back(capped_mean(seconds));
      }
    }
  }
  double slow_s = 0;
  double usual_s = 0;
  for (auto& [shape, both] : times) {
    auto& [slow, others] = both;
    if (!slow.empty() && !others.empty()) {
      slow_s += quantile(slow, 0.5);
      usual_s += quantile(others, 0.5);
    }
  }
  return usual_s > 0 ? slow_s / usual_s - 1 : 0;
}

double other_shapes(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window) {
  std::map<std::string, bool> known;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      if (!blamed[r] && !samples.empty()) {
        known[shape] = true;
      }
    }
  }
  size_t count = 0;
  double all = 0;
  double other = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      const std::vector<double> seconds = blamed[r] ? within(samples, job, r, window) : std::vector<double>();
      const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      count += seconds.size();
      all += sum;
      other += known.contains(shape) ? 0 : sum;
    }
  }
  return !known.empty() && count >= kLeastOfShape && all > 0 ? other / all : 0;
}

bool mostly_graphs(const JobSteps& job, const std::vector<bool>& blamed, StepWindow window) {
  double graphs = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      const std::vector<double> seconds = blamed[r] ? within(samples, job, r, window) : std::vector<double>();
      const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      graphs += shape.starts_with(kGraphShape) ? sum : -sum;
    }
  }
  return graphs > 0;
}

double slower_than_before(const JobSteps& job, StepWindow before, StepWindow after) {
  std::vector<double> ratios;
  size_t slow = 0;
  for (size_t r = 0; r < job.ranks(); ++r) {
    double before_s = 0;
    double after_s = 0;
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      std::vector<double> earlier = within(samples, job, r, before);
      std::vector<double> later = within(samples, job, r, after);
      if (std::min(earlier.size(), later.size()) >= kLeastOfShape) {
        before_s += capped_mean(earlier);
        after_s += capped_mean(later);
      }
    }
    if (before_s > 0) {
      ratios.push_back(after_s / before_s - 1);
      slow += ratios.back() >= kSlowShapes ? 1 : 0;
    }
  }
  const bool most =
      !ratios.empty() && static_cast<double>(slow) >= kMostOfRanks * static_cast<double>(ratios.size());
  return most ? quantile(ratios, 0.5) : 0;
}

}  // namespace xpurun::report
