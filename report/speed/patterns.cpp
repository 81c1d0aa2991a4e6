#include "report/speed/patterns.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace xpurun::report {

namespace {
constexpr double kSlow = 1.5;  // times the median
constexpr size_t kLeastSlow = 5;
constexpr size_t kShortest = 3;  // period
constexpr size_t kLongest = 1000;
constexpr double kRegular = 0.8;    // of the steps that should be slow
constexpr double kElsewhere = 0.1;  // of the other steps; a busy machine slows some of them

// The steps of this period that are slow, if nearly all of one place in the period are and few others.
std::vector<size_t> slow_at(const std::vector<size_t>& slow, StepWindow window, size_t period) {
  std::map<size_t, size_t> places;
  for (const size_t step : slow) {
    ++places[step % period];
  }
  const auto most = std::max_element(places.begin(), places.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto expected = static_cast<double>(window.size()) / static_cast<double>(period);
  const auto elsewhere = static_cast<double>(slow.size() - most->second);
  if (most->second < kLeastSlow || static_cast<double>(most->second) < kRegular * expected ||
      elsewhere > kElsewhere * (static_cast<double>(window.size()) - expected)) {
    return {};
  }
  std::vector<size_t> out;
  std::copy_if(slow.begin(), slow.end(), std::back_inserter(out),
               [&](size_t step) { return step % period == most->first; });
  return out;
}

}  // namespace

std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window) {
  const auto steps = seconds.subspan(window.first, window.size());
  const double usual = median({steps.begin(), steps.end()});
  std::vector<size_t> slow;
  for (size_t i = window.first; i < window.last; ++i) {
    if (seconds[i] >= kSlow * usual) {
      slow.push_back(i);
    }
  }
  StepPattern out;
  const size_t longest = std::min(kLongest, window.size() / kLeastSlow);
  for (size_t period = kShortest; period <= longest && out.slow.empty() && !slow.empty(); ++period) {
    out.period = period;
    out.slow = slow_at(slow, window, period);
  }
  if (out.slow.empty()) {
    return {};
  }
  std::vector<double> slow_s;
  std::vector<double> usual_s;
  for (size_t i = window.first; i < window.last; ++i) {
    (std::binary_search(out.slow.begin(), out.slow.end(), i) ? slow_s : usual_s).push_back(seconds[i]);
  }
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
