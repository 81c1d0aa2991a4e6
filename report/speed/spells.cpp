#include "report/speed/spells.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/rank_shift.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr double kLeastSpell = 0.10;  // slower than before and after
constexpr double kCertainSpell = 6;   // standard errors of the difference of two means

double median_seconds(std::span<const double> seconds, StepWindow window) {
  const auto steps = seconds.subspan(window.first, window.size());
  return median({steps.begin(), steps.end()});
}

// The part of the values whose sum over `usual` is largest.
StepWindow highest_part(std::span<const double> values, double usual) {
  StepWindow best;
  double most = 0;
  double sum = 0;
  size_t first = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (sum <= 0) {
      sum = 0;
      first = i;
    }
    sum += values[i] - usual;
    if (sum > most) {
      most = sum;
      best = {first, i + 1};
    }
  }
  return best;
}

// The part, from where the values rise to where they fall: single high values before and after it are no part
// of it.
StepWindow with_edges(const std::vector<double>& values, StepWindow part, size_t least) {
  const size_t middle = (part.first + part.last) / 2;
  const auto begin = lasting_rise(std::span(values).first(middle), least / 2);
  std::vector<double> later(values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  std::reverse(later.begin(), later.end());
  const auto end = lasting_rise(later, least / 2);
  return {begin.value_or(part.first), end ? values.size() - *end : part.last};
}

// Whether the values of the part are higher than the others, not by chance.
bool higher(std::span<const double> values, StepWindow part) {
  const auto inside = values.subspan(part.first, part.size());
  std::vector<double> outside(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(part.first));
  outside.insert(outside.end(), values.begin() + static_cast<std::ptrdiff_t>(part.last), values.end());
  const double in = mean(inside);
  const double out = mean(outside);
  std::vector<double> residues;
  for (size_t i = 0; i < values.size(); ++i) {
    residues.push_back(values[i] - (i >= part.first && i < part.last ? in : out));
  }
  const auto count = [](size_t n) { return static_cast<double>(n); };
  const double error =
      std::sqrt(lasting_variance(residues) * (1 / count(inside.size()) + 1 / count(outside.size())));
  return in - out > std::max(kCertainSpell * error, std::log1p(kLeastSpell));
}

}  // namespace

std::vector<StepSpell> spells_between(const std::vector<model::StepChange>& changes,
                                      std::span<const double> seconds) {
  std::vector<StepSpell> out;
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    const model::StepChange& begin = changes[i];
    size_t last = i + 1;
    while (last + 1 < changes.size() && changes[last].after_s > begin.before_s * (1 + kLeastSpell / 2)) {
      ++last;
    }
    const model::StepChange& end = changes[last];
    if (begin.share < kLeastSpell || end.after_s > begin.before_s * (1 + kLeastSpell / 2)) {
      continue;
    }
    const StepWindow steps{static_cast<size_t>(begin.step), static_cast<size_t>(end.step)};
    out.push_back({.steps = steps, .before_s = begin.before_s, .during_s = median_seconds(seconds, steps)});
    i = last;
  }
  return out;
}

std::optional<StepSpell> spell_of_rank(const OwnTimes& own, const std::vector<std::string>& hosts,
                                       std::span<const double> seconds, StepWindow window, size_t least) {
  std::optional<StepSpell> best;
  const RankRatios ratios(own, window);
  for (size_t r = 0; r < own.ranks(); ++r) {
    const RatioSeries series = ratios.of(r);
    if (series.ratios.size() < 3 * least) {
      continue;
    }
    std::vector<double> sorted = series.ratios;
    const double usual = quantile(sorted, 0.5);
    const double spread = robust_spread(series.ratios, usual);
    const StepWindow part =
        highest_part(series.ratios, usual + std::max(std::log1p(kLeastSpell), spread) / 2);
    if (part.size() < least || part.first < least || part.last + least > series.ratios.size() ||
        !higher(series.ratios, part)) {
      continue;
    }
    const StepWindow edges = with_edges(series.ratios, part, least);
    StepSpell one{.steps = {series.steps[edges.first], series.steps[edges.last]}, .ranks = {r}};
    one.before_s = median_seconds(seconds, {window.first, one.steps.first});
    one.during_s = median_seconds(seconds, one.steps);
    const double after_s = median_seconds(seconds, {one.steps.last, window.last});
    const auto blame = find_blame(own, hosts, one.steps);
    if (one.during_s >= (1 + kLeastSpell) * std::max(one.before_s, after_s) && blame &&
        blame->ranks == one.ranks && (!best || best->during_s < one.during_s)) {
      one.lost_s = blame->lost_s;
      best = std::move(one);
    }
  }
  return best;
}

}  // namespace xpurun::report
