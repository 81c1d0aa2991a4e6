#include "report/speed/patterns.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <map>

namespace xpurun::report {

namespace {
constexpr double kSlow = 1.5;  // times the median
constexpr size_t kLeastSlow = 5;
constexpr size_t kShortest = 3;   // period
constexpr double kRegular = 0.8;  // of the distances, and of the steps that should be slow
}  // namespace

std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window) {
  const auto steps = seconds.subspan(window.first, window.size());
  const double usual = median({steps.begin(), steps.end()});
  StepPattern out;
  std::vector<double> slow_s;
  std::vector<double> usual_s;
  for (size_t i = window.first; i < window.last; ++i) {
    const bool slow = seconds[i] >= kSlow * usual;
    (slow ? slow_s : usual_s).push_back(seconds[i]);
    if (slow) {
      out.slow.push_back(i);
    }
  }
  if (out.slow.size() < kLeastSlow) {
    return {};
  }
  std::map<size_t, size_t> distances;
  for (size_t i = 1; i < out.slow.size(); ++i) {
    ++distances[out.slow[i] - out.slow[i - 1]];
  }
  const auto most = std::max_element(distances.begin(), distances.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto apart = static_cast<double>(out.slow.size() - 1);
  const auto expected = static_cast<double>(window.size()) / static_cast<double>(most->first);
  if (most->first < kShortest || static_cast<double>(most->second) < kRegular * apart ||
      static_cast<double>(out.slow.size()) < kRegular * expected) {
    return {};
  }
  out.period = most->first;
  out.slow_s = median(slow_s);
  out.usual_s = median(usual_s);
  return out;
}

OwnTimes without_usual_steps(OwnTimes own, const StepPattern& pattern, StepWindow window) {
  for (size_t i = window.first; i < window.last; ++i) {
    if (!std::binary_search(pattern.slow.begin(), pattern.slow.end(), i)) {
      own.pass_over(i);
    }
  }
  return own;
}

}  // namespace xpurun::report
