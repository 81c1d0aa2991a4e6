#include "report/speed/patterns.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <array>
#include <map>

namespace xpurun::report {

namespace {
// Slow is what takes so many times the median; more on a busy machine, which slows many steps a little.
constexpr std::array kSlow = {1.5, 3.0, 6.0};
constexpr size_t kShortest = 3;  // period
constexpr size_t kLongest = 1000;
constexpr double kRegular = 0.8;    // of the steps that should be slow
constexpr double kElsewhere = 0.1;  // of the other steps; a busy machine slows some of them
constexpr double kByChance = 0.01;
constexpr size_t kLatest = 4096;         // steps in which a place that varies is looked for
constexpr size_t kLongestVarying = 128;  // period
constexpr double kLonger = 1.5;          // a step of that place, in the median
constexpr double kByRanks = 0.5;         // of the difference that the blamed ranks explain

// Whether nearly all steps of one place in the period are slow in the window, and few others.
bool regular(size_t at_place, size_t slow, StepWindow window, size_t period, size_t least) {
  const auto steps = static_cast<double>(window.size());
  const double expected = steps / static_cast<double>(period);
  return at_place >= least && static_cast<double>(at_place) >= kRegular * expected &&
         static_cast<double>(slow - at_place) <= kElsewhere * (steps - expected);
}

// Steps that are slow without a rule fit some place of some period. How likely they fit one as well as this,
// among the periods that were tried, for the first and for the slowest steps of runs.
bool is_chance(size_t at_place, size_t slow, StepWindow window, size_t period) {
  const auto steps = static_cast<double>(window.size());
  const size_t expected = std::max(at_place, (window.size() + period - 1) / period);
  const double others = std::max<double>(1, static_cast<double>(slow - at_place));
  const double density = std::min(0.5, others / std::max(1.0, steps - static_cast<double>(expected)));
  const auto tried = static_cast<double>(period * period);
  return tried * binomial_tail(expected, at_place, density) > kByChance;
}

// The steps of this period that are slow, from the first one on from which they are regular.
std::vector<size_t> slow_at(const std::vector<size_t>& slow, StepWindow window, size_t period, size_t least) {
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
  for (auto before = slow.begin(); out.size() >= least; out.pop_back()) {
    before = std::lower_bound(before, slow.end(), out.back());
    const auto since = static_cast<size_t>(slow.end() - before);
    const StepWindow after{out.back(), window.last};
    // The first ones follow each other without a gap: slow steps from before the pattern are no part of it.
    const bool begins = out.back() + (kLeastSlow - 1) * period >= out[out.size() - kLeastSlow];
    if (begins && regular(out.size(), since, after, period, least) &&
        !is_chance(out.size(), since, after, period)) {
      return {out.rbegin(), out.rend()};
    }
  }
  return {};
}

void put_times(std::span<const double> seconds, const std::vector<StepWindow>& runs, StepPattern& out) {
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
}

std::optional<StepPattern> pattern_above(double limit_s, std::span<const double> seconds, StepWindow window,
                                         size_t least) {
  // What makes a step slow may spill into the next one: neighbours count as one. By the first of them, or by
  // the slowest.
  std::vector<StepWindow> runs;
  std::array<std::vector<size_t>, 2> slow;
  for (size_t i = window.first; i < window.last; ++i) {
    if (seconds[i] < limit_s) {
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
  const size_t longest = std::min(kLongest, window.size() / least);
  for (size_t period = kShortest; period <= longest && found.empty() && !runs.empty(); ++period) {
    out.period = period;
    found = slow_at(slow[1], window, period, least);
    found = found.empty() ? slow_at(slow[0], window, period, least) : found;
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
  put_times(seconds, runs, out);
  const bool later = out.window.first >= window.first + 2 * out.period;
  out.since = later ? static_cast<int64_t>(out.window.first) : -1;
  return out;
}

// Whether nearly all steps of a place take longer than most others, if by how much varies.
bool longer_at(size_t place, size_t period, std::span<const double> seconds, StepWindow window) {
  std::vector<double> here;
  std::vector<double> others;
  for (size_t i = window.first; i < window.last; ++i) {
    (i % period == place ? here : others).push_back(seconds[i]);
  }
  return quantile(here, 1 - kRegular) > quantile(others, kRegular) &&
         quantile(here, 0.5) >= kLonger * quantile(others, 0.5);
}

// On a busy machine, other steps take as long now and then: the steps of each place of a period are compared
// with the others.
std::optional<StepPattern> varying_pattern(std::span<const double> seconds, StepWindow window, size_t least) {
  const StepWindow latest{window.last - std::min(window.size(), kLatest), window.last};
  const size_t longest = std::min(kLongestVarying, latest.size() / least);
  for (size_t period = kShortest; period <= longest; ++period) {
    std::vector<std::vector<double>> places(period);
    for (size_t i = latest.first; i < latest.last; ++i) {
      places[i % period].push_back(seconds[i]);
    }
    std::vector<double> medians;
    for (std::vector<double>& place : places) {
      medians.push_back(quantile(place, 0.5));
    }
    const auto most = static_cast<size_t>(std::max_element(medians.begin(), medians.end()) - medians.begin());
    if (!longer_at(most, period, seconds, latest)) {
      continue;
    }
    StepPattern out;
    out.period = period;
    out.window = latest;
    std::vector<StepWindow> runs;
    for (size_t i = latest.first; i < latest.last; ++i) {
      if (i % period == most) {
        out.slow.push_back(i);
        runs.push_back({i, i + 1});
      }
    }
    put_times(seconds, runs, out);
    return out;
  }
  return {};
}

}  // namespace

std::optional<StepPattern> pattern_of(std::span<const double> seconds, StepWindow window, size_t least) {
  const auto steps = seconds.subspan(window.first, window.size());
  const double usual_s = median({steps.begin(), steps.end()});
  for (const double times : kSlow) {
    if (auto found = pattern_above(times * usual_s, seconds, window, least)) {
      return found;
    }
  }
  return least > kLeastSlow ? varying_pattern(seconds, window, least) : std::nullopt;
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
