#include "report/speed/patterns.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <array>
#include <map>

namespace xpurun::report {

namespace {
constexpr double kSlow = 1.5;  // times the median
constexpr size_t kLeastSlow = 5;
constexpr size_t kShortest = 3;  // period
constexpr size_t kLongest = 1000;
constexpr double kRegular = 0.8;    // of the steps that should be slow
constexpr double kElsewhere = 0.1;  // of the other steps; a busy machine slows some of them
constexpr double kByRanks = 0.5;    // of the difference that the blamed ranks explain

// Whether nearly all steps of one place in the period are slow in the window, and few others.
bool regular(size_t at_place, size_t slow, StepWindow window, size_t period) {
  const auto steps = static_cast<double>(window.size());
  const double expected = steps / static_cast<double>(period);
  return at_place >= kLeastSlow && static_cast<double>(at_place) >= kRegular * expected &&
         static_cast<double>(slow - at_place) <= kElsewhere * (steps - expected);
}

// The steps of this period that are slow, from the first one on from which they are regular.
std::vector<size_t> slow_at(const std::vector<size_t>& slow, StepWindow window, size_t period) {
  std::map<size_t, size_t> places;
  for (const size_t step : slow) {
    ++places[step % period];
  }
  const auto most = std::max_element(places.begin(), places.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<size_t> out;
  for (size_t i = slow.size(); i-- > 0;) {
    if (slow[i] % period == most->first) {
      out.push_back(slow[i]);
    }
  }
  // `out` is in reverse.
  for (auto before = slow.begin(); out.size() >= kLeastSlow; out.pop_back()) {
    before = std::lower_bound(before, slow.end(), out.back());
    if (regular(out.size(), static_cast<size_t>(slow.end() - before), {out.back(), window.last}, period)) {
      return {out.rbegin(), out.rend()};
    }
  }
  return {};
}

}  // namespace

std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window) {
  const auto steps = seconds.subspan(window.first, window.size());
  const double usual = median({steps.begin(), steps.end()});
  // What makes a step slow may spill into the next one: neighbours count as one. By the first of them, or by
  // the slowest.
  std::vector<StepWindow> runs;
  std::array<std::vector<size_t>, 2> slow;
  for (size_t i = window.first; i < window.last; ++i) {
    if (seconds[i] < kSlow * usual) {
      continue;
    }
    if (runs.empty() || runs.back().last != i) {
      runs.push_back({i, i});
      slow[0].push_back(i);
      slow[1].push_back(i);
    }
    runs.back().last = i + 1;
    slow[1].back() = seconds[i] > seconds[slow[1].back()] ? i : slow[1].back();
  }
  StepPattern out;
  std::vector<size_t> found;
  const size_t longest = std::min(kLongest, window.size() / kLeastSlow);
  for (size_t period = kShortest; period <= longest && found.empty() && !runs.empty(); ++period) {
    out.period = period;
    found = slow_at(slow[1], window, period);
    found = found.empty() ? slow_at(slow[0], window, period) : found;
  }
  if (found.empty()) {
    return {};
  }
  out.window = {found.front(), window.last};
  std::erase_if(runs, [&](const StepWindow& run) {
    const auto at = std::lower_bound(found.begin(), found.end(), run.first);
    return at == found.end() || *at >= run.last;
  });
  for (const StepWindow& run : runs) {
    out.window.first = std::min(out.window.first, run.first);
    for (size_t i = run.first; i < run.last; ++i) {
      out.slow.push_back(i);
    }
  }
  std::vector<double> usual_s;
  for (size_t i = out.window.first; i < out.window.last; ++i) {
    if (!std::binary_search(out.slow.begin(), out.slow.end(), i)) {
      usual_s.push_back(seconds[i]);
    }
  }
  out.usual_s = median(usual_s);
  std::vector<double> slow_s;
  for (const StepWindow& run : runs) {
    slow_s.push_back(out.usual_s);
    for (size_t i = run.first; i < run.last; ++i) {
      slow_s.back() += seconds[i] - out.usual_s;
    }
  }
  out.slow_s = median(slow_s);
  out.lost_s = (out.slow_s - out.usual_s) * static_cast<double>(slow_s.size()) /
               static_cast<double>(out.window.size());
  const bool later = out.window.first >= window.first + 2 * out.period;
  out.since = later ? static_cast<int64_t>(out.window.first) : -1;
  return out;
}

std::optional<Blame> blame_for(const StepPattern& pattern, const JobSteps& job, const OwnTimes* own,
                               const std::vector<std::string>& hosts) {
  const auto in_slow_steps = [&](OwnTimes times) -> std::optional<Blame> {
    for (size_t i = pattern.window.first; i < pattern.window.last; ++i) {
      if (!std::binary_search(pattern.slow.begin(), pattern.slow.end(), i)) {
        times.pass_over(i);
      }
    }
    const auto blame = find_blame(times, hosts, pattern.window);
    const double of_each = pattern.lost_s * static_cast<double>(pattern.window.size()) /
                           static_cast<double>(pattern.slow.size());
    return blame && blame->lost_s >= kByRanks * of_each ? blame : std::nullopt;
  };
  const auto blame = own != nullptr ? in_slow_steps(*own) : std::nullopt;
  return blame ? blame : in_slow_steps(OwnTimes::by_ends(job));
}

}  // namespace xpurun::report
