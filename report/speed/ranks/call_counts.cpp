#include "report/speed/ranks/call_counts.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <string>

namespace xpurun::report {

namespace {

constexpr size_t kLeastSamples = 2;
constexpr size_t kLeastTimedReads = 3;  // timed ones
constexpr double kLeastPart = 0.25;     // of the window, between the samples
constexpr uint32_t kFirstCalls = 2;     // with so small a number, a call had hardly any before it

// How many calls there were until this time, from the samples before and after it; 0 before the first one.
double number_at(const std::vector<TimedSample>& sorted, int64_t at_ns) {
  const auto after = std::lower_bound(sorted.begin(), sorted.end(), at_ns,
                                      [](const TimedSample& one, int64_t at) { return one.at_ns < at; });
  if (after == sorted.end()) {
    return sorted.back().number;
  }
  if (after == sorted.begin()) {
    return after->at_ns == at_ns ? after->number : 0;
  }
  const TimedSample& before = *(after - 1);
  const auto part =
      static_cast<double>(at_ns - before.at_ns) / static_cast<double>(after->at_ns - before.at_ns);
  return before.number + part * (static_cast<double>(after->number) - before.number);
}

std::optional<double> of_sorted(const std::vector<TimedSample>& sorted, const JobSteps& job, size_t rank,
                                StepWindow window) {
  const StepRecord* first = job.at(rank, window.first);
  // A rank may have fewer steps than another one.
  while (window.size() > 1 && job.at(rank, window.last - 1) == nullptr) {
    --window.last;
  }
  const StepRecord* last = job.at(rank, window.last - 1);
  if (sorted.size() < kLeastSamples || first == nullptr || last == nullptr) {
    return {};
  }
  const int64_t end_ns = last->begin_ns + last->duration_ns;
  const bool from_its_first = sorted.front().number <= kFirstCalls;
  if (from_its_first && sorted.front().at_ns >= end_ns) {
    return 0;
  }
  const int64_t from = from_its_first ? first->begin_ns : std::max(first->begin_ns, sorted.front().at_ns);
  const int64_t until = std::min(end_ns, sorted.back().at_ns);
  const auto window_ns = static_cast<double>(end_ns - first->begin_ns);
  const auto known_ns = static_cast<double>(until - from);
  const double calls = number_at(sorted, until) - number_at(sorted, from);
  if (known_ns <= 0 || known_ns < kLeastPart * window_ns || calls < 0) {
    return {};
  }
  return calls / known_ns * window_ns / static_cast<double>(window.size());
}

std::vector<TimedSample> in_order(std::vector<TimedSample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const TimedSample& a, const TimedSample& b) { return a.at_ns < b.at_ns; });
  return samples;
}

struct ShapeOnRanks {
  std::vector<double> calls;  // by rank
  std::vector<double> medians_s;
  bool known = true;
};

}  // namespace

std::optional<double> calls_per_step(const std::vector<TimedSample>& samples, const JobSteps& job,
                                     size_t rank, StepWindow window) {
  return of_sorted(in_order(samples), job, rank, window);
}

double reads_per_step(const JobSteps& job, size_t rank, StepWindow window) {
  double out = 0;
  for (const std::vector<TimedSample>& of : job.rank(rank).reads) {
    if (of.size() >= kLeastTimedReads) {
      out += calls_per_step(of, job, rank, window).value_or(0);
    }
  }
  return out;
}

std::vector<MatmulWork> matmul_work(const JobSteps& job, StepWindow window) {
  std::map<std::string, ShapeOnRanks> shapes;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [shape, samples] : job.rank(r).shapes) {
      ShapeOnRanks& of = shapes[shape];
      of.calls.resize(job.ranks(), 0);
      const auto calls = calls_per_step(samples, job, r, window);
      of.calls[r] = calls.value_or(0);
      of.known = of.known && calls.has_value();
      std::vector<double> seconds;
      for (const TimedSample& one : samples) {
        seconds.push_back(one.seconds);
      }
      of.medians_s.push_back(quantile(seconds, 0.5));
    }
  }
  std::vector<MatmulWork> out(job.ranks());
  for (auto& [shape, of] : shapes) {
    const double seconds = quantile(of.medians_s, 0.5);
    for (size_t r = 0; of.known && r < job.ranks(); ++r) {
      out[r].calls += of.calls[r];
      out[r].seconds += of.calls[r] * seconds;
    }
  }
  return out;
}

}  // namespace xpurun::report
