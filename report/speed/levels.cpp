#include "report/speed/levels.h"

#include "report/speed/changes/change_points.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {
constexpr double kLeastS = 1e-9;
constexpr double kMostOfRise = 0.8;
constexpr double kMostPauses = 0.02;  // of the steps
}  // namespace

StepWindow current_window(const model::SpeedReport& report, size_t steps) {
  const size_t warm = steps > kWarmUpSteps + kLeastWindow ? kWarmUpSteps : 0;
  if (!report.changes.empty()) {
    const auto since = static_cast<size_t>(report.changes.back().step);
    if (since + kLeastWindow <= steps) {
      return {since, steps};
    }
  }
  return {warm, steps};
}

size_t changed_within(std::span<const double> seconds, const model::StepChange& change, size_t first) {
  const auto last = static_cast<size_t>(change.step);
  const auto distance = [&](size_t step, double level) {
    return std::abs(std::log(std::max(seconds[step], kLeastS) / level));
  };
  double error = 0;
  for (size_t i = first; i < last; ++i) {
    error += distance(i, change.after_s);
  }
  size_t best = first;
  double least = error;
  for (size_t i = first; i < last; ++i) {
    error += distance(i, change.before_s) - distance(i, change.after_s);
    if (error < least) {
      least = error;
      best = i + 1;
    }
  }
  return best;
}

std::vector<size_t> lonely_pauses(std::span<const double> seconds,
                                  const std::vector<model::StepChange>& changes) {
  std::vector<size_t> out;
  size_t first = 0;
  for (size_t c = 0; c <= changes.size(); ++c) {
    const size_t end = c < changes.size() ? static_cast<size_t>(changes[c].step) : seconds.size();
    const size_t last = std::clamp(end, first, seconds.size());
    const auto level = seconds.subspan(first, last - first);
    const double most = kPause * median({level.begin(), level.end()});
    const size_t known = out.size();
    for (size_t i = first; i < last; ++i) {
      if (seconds[i] > most) {
        out.push_back(i);
      }
    }
    if (static_cast<double>(out.size() - known) > kMostPauses * static_cast<double>(level.size())) {
      out.resize(known);
    }
    first = last;
  }
  return out;
}

double usual_seconds(std::span<const double> seconds, const std::vector<size_t>& usual, StepWindow window) {
  std::vector<double> out;
  for (auto it = std::lower_bound(usual.begin(), usual.end(), window.first);
       it != usual.end() && *it < window.last; ++it) {
    out.push_back(seconds[*it]);
  }
  const auto steps = seconds.subspan(window.first, window.size());
  return median(out.empty() ? std::vector<double>(steps.begin(), steps.end()) : std::move(out));
}

double mean_seconds(std::span<const double> seconds, const OwnTimes& own, StepWindow window) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = window.first; i < window.last; ++i) {
    sum += own.passed_over(i) ? 0 : seconds[i];
    count += own.passed_over(i) ? 0 : 1;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

Slowdown slowdown_at(size_t step, const Slowdown& slow, std::span<const double> seconds,
                     const std::vector<size_t>& usual) {
  const size_t first = step > slow.before.last ? slow.before.last : slow.before.first;
  Slowdown out{.before = {std::min(first, step - 1), step}, .change = slow.change};
  out.change.kind = model::ChangeKind::level_shift;
  out.change.step = static_cast<int64_t>(step);
  out.change.before_s = usual_seconds(seconds, usual, out.before);
  out.change.share = out.change.after_s / out.change.before_s - 1;
  return out;
}

std::optional<Slowdown> slowdown_of(const std::vector<model::StepChange>& changes, size_t steps, double now,
                                    double least) {
  if (changes.empty()) {
    return {};
  }
  size_t fastest = 0;  // index of the change that ended the fastest level
  for (size_t i = 1; i < changes.size(); ++i) {
    fastest = changes[i].before_s < changes[fastest].before_s ? i : fastest;
  }
  if (now / changes[fastest].before_s - 1 < least) {
    return {};
  }
  // If a later change made most of the difference, the job is slow since then.
  size_t main = fastest;
  for (size_t i = fastest + 1; i < changes.size(); ++i) {
    if (std::log(now / changes[i].before_s) >= kMostOfRise * std::log(now / changes[fastest].before_s)) {
      main = i;
    }
  }
  const auto begin = main == 0 ? kWarmUpSteps : static_cast<size_t>(changes[main - 1].step);
  Slowdown out{.before = {begin, static_cast<size_t>(changes[main].step)}, .change = changes[main]};
  out.change.after_s = now;
  out.change.share = now / out.change.before_s - 1;
  return out.before.first < out.before.last && out.before.last < steps ? std::optional(out) : std::nullopt;
}

}  // namespace xpurun::report
