#include "report/speed/changes/change_points.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr size_t kWarmUp = 3;        // compilation, first allocations
constexpr size_t kLeastBefore = 20;  // values that a level needs
constexpr size_t kLeastAfter = 10;
constexpr double kVeryLarge = 0.5;  // share; no load of others comes and goes like this
constexpr size_t kWindow = 60;      // a change is looked for in the latest values
constexpr size_t kMostValues = 260;
constexpr size_t kReference = 200;
constexpr size_t kRampWindow = 50;
constexpr size_t kRefresh = 16;    // values between two looks at the baseline
constexpr double kSuspicious = 6;  // standard deviations
constexpr double kUsual = 3;
constexpr size_t kMostSuspects = 2;
constexpr size_t kSpikeMemory = 100;
constexpr size_t kMostSpikes = 12;  // of kSpikeMemory; more are a part of the job's rhythm
constexpr double kCertain = 0.9;
constexpr double kMostInside = 0.2;  // share of the later values that may look like earlier ones
constexpr double kMeanSpreads = 5;   // standard deviations of a mean
constexpr double kLeastSpread = 0.002;
constexpr size_t kPart = 25;  // values of which a median is compared
constexpr double kPartSpreads = 4.5;
constexpr double kRampSlack = 0.01;
constexpr double kRampSum = 0.5;
constexpr double kStepFitsBetter = 0.85;
constexpr double kNoRamp = 0.93;     // of the sum of squared residues, of a change of level over a slope
constexpr int64_t kRampParts = 400;  // steps; two ramps that are not further apart are one

std::vector<double> numbers(const auto& values) {
  std::vector<double> out;
  out.reserve(values.size());
  for (const auto& value : values) {
    out.push_back(value.log_seconds);
  }
  return out;
}

struct Fit {
  size_t split = 0;  // best position of a single change of level
  double step = 0;   // sums of squared residues
  double line = 0;
};

// Compares a change of level with a slope.
Fit fit(const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  double sum = 0;
  double squares = 0;
  double moment = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    squares += x[i] * x[i];
    moment += x[i] * (static_cast<double>(i) - (n - 1) / 2);
  }
  const double total = squares - sum * sum / n;
  // A least-squares line over 0 to n - 1 explains moment^2 * 12 / (n (n^2 - 1)) of the sum of squares.
  Fit out{.split = 0, .step = total, .line = total - moment * moment * 12 / (n * (n * n - 1))};
  double left = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    left += x[i - 1];
    const auto k = static_cast<double>(i);
    const double between = left * left / k + (sum - left) * (sum - left) / (n - k) - sum * sum / n;
    if (total - between < out.step) {
      out.step = total - between;
      out.split = i;
    }
  }
  return out;
}

model::StepChange change_of(model::ChangeKind kind, size_t step, size_t found_step, double before,
                            double after) {
  return {.kind = kind,
          .step = static_cast<int64_t>(step),
          .found_step = static_cast<int64_t>(found_step),
          .before_s = std::exp(before),
          .after_s = std::exp(after),
          .share = std::expm1(after - before)};
}

// Medians of the parts of the values, each of kPart; a rest at the beginning is left out.
std::vector<double> medians_of_parts(const std::vector<double>& values) {
  std::vector<double> out;
  for (size_t at = values.size() % kPart; at < values.size(); at += kPart) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(at);
    out.push_back(median({begin, begin + kPart}));
  }
  return out;
}

}  // namespace

ChangeDetector::Baseline ChangeDetector::baseline_of(std::span<const Value> values) {
  std::vector<double> x = numbers(values);
  Baseline out;
  double before = 0;
  double together = 0;
  double alone = 0;
  std::vector<double> sorted = x;
  out.level = quantile(sorted, 0.5);
  out.low = quantile(sorted, 0.1);
  out.high = quantile(sorted, 0.9);
  // The second term sees mixtures of several shapes, which the median of the distances does not.
  out.spread = std::max({robust_spread(x, out.level), (out.high - out.low) / 2.56, kLeastSpread});
  for (size_t i = 0; i < x.size(); ++i) {
    const double distance = std::clamp(x[i] - out.level, -4 * out.spread, 4 * out.spread);
    together += i > 0 ? distance * before : 0;
    alone += distance * distance;
    before = distance;
  }
  const double alike = alone > 0 ? std::clamp(together / alone, 0.0, 0.9) : 0;
  // For an AR(1) series, the standard error of a mean is larger by this factor.
  out.memory = std::sqrt((1 + alike) / (1 - alike));
  return out;
}

std::optional<model::StepChange> ChangeDetector::add(double seconds) {
  const Value value{next_++, std::log(std::max(seconds, 1e-9))};
  if (value.step < kWarmUp) {
    return {};
  }
  if (!lengths_) {
    return accept(value);
  }
  const double distance = (value.log_seconds - now_.level) / now_.spread;
  const bool slow = distance > kSuspicious;
  slow_run_ = slow ? slow_run_ + 1 : 0;
  const auto known = static_cast<size_t>(std::count(recent_spikes_.begin(), recent_spikes_.end(), true));
  if (slow && slow_run_ <= kMostSuspects && known < kMostSpikes) {
    suspects_.push_back(value);
    return {};
  }
  std::optional<model::StepChange> found;
  if (distance > kUsual) {  // a spike is followed by a usual step
    for (const Value& suspect : suspects_) {
      const auto one = accept(suspect);
      found = one ? one : found;
    }
    suspects_.clear();
  } else {
    settle_suspects();
  }
  const auto last = accept(value);
  return last ? last : found;
}

void ChangeDetector::settle_suspects() {
  for (const Value& suspect : suspects_) {
    const bool pause = suspect.log_seconds - now_.level > std::log(kPause);
    (pause ? pauses_ : spikes_) += 1;
    recent_spikes_.push_back(true);
  }
  suspects_.clear();
}

std::optional<model::StepChange> ChangeDetector::accept(const Value& value) {
  recent_spikes_.push_back(false);
  while (recent_spikes_.size() > kSpikeMemory) {
    recent_spikes_.pop_front();
  }
  values_.push_back(value);
  if (values_.size() > 2 * kMostValues) {
    values_.erase(values_.begin(), values_.end() - kMostValues);
  }
  if (reference_.size() < kReference) {
    reference_.push_back(value);
  }
  if (values_.size() < kLeastBefore) {
    return {};
  }
  if (!lengths_) {
    now_ = baseline_of(values_);
    lengths_.emplace(settings_.hazard, now_.level, now_.spread);
  } else if (value.step % kRefresh == 0) {
    now_ = baseline_of(std::span(values_).last(std::min(values_.size(), kReference)));
  }
  lengths_->add(value.log_seconds);
  if (auto shift = level_shift()) {
    return shift;
  }
  if (auto shift = long_shift()) {
    return shift;
  }
  return ramp();
}

bool ChangeDetector::differs(const Baseline& before, std::span<const Value> after, double least_share) const {
  const std::vector<double> x = numbers(after);
  const double moved = median(x) - before.level;
  const double mean_spread = before.spread * before.memory / std::sqrt(static_cast<double>(x.size()));
  if (std::abs(moved) < std::max({std::log1p(least_share), settings_.least_spreads * before.spread,
                                  kMeanSpreads * mean_spread})) {
    return false;
  }
  const auto inside = std::count_if(x.begin(), x.end(), [&](double value) {
    return moved > 0 ? value <= before.high : value >= before.low;
  });
  return static_cast<double>(inside) <= kMostInside * static_cast<double>(x.size());
}

std::optional<model::StepChange> ChangeDetector::level_shift() {
  if (values_.size() < kLeastBefore + kLeastAfter || lengths_->recent(kWindow) < kCertain) {
    return {};
  }
  const auto window = std::span(values_).last(std::min(values_.size(), kWindow));
  const Fit found = fit(numbers(window));
  const size_t after_count = window.size() - found.split;
  const size_t before_count = values_.size() - after_count;
  if (found.split == 0 || after_count < kLeastAfter || before_count < kLeastBefore ||
      found.step > kStepFitsBetter * found.line) {
    return {};
  }
  const auto after = std::span(values_).last(after_count);
  const auto earlier = std::span(values_).first(before_count);
  const Baseline before = baseline_of(earlier.last(std::min(before_count, kReference)));
  const bool known = after_count >= settings_.least_after && 2 * before_count >= 3 * settings_.least_after;
  const bool lasts = known || std::abs(median(numbers(after)) - before.level) >= std::log1p(kVeryLarge);
  if (!lasts || !differs(before, after, settings_.least_share)) {
    return {};
  }
  const auto change = change_of(model::ChangeKind::level_shift, after.front().step, next_ - 1, before.level,
                                median(numbers(after)));
  forget_before(after.front().step);
  return change;
}

// For jobs whose steps vary more than the change: a level that has lasted for many steps. Medians of parts
// are compared, whose spread shows how much the job varies over the length of a part.
std::optional<model::StepChange> ChangeDetector::long_shift() {
  const size_t least = settings_.long_level / kPart;
  if (least == 0 || values_.size() < 2 * least * kPart || values_.back().step % kRefresh != 0) {
    return {};
  }
  const std::vector<double> x = numbers(values_);
  const std::vector<double> parts = medians_of_parts(x);
  const Fit found = fit(parts);
  if (std::min(found.split, parts.size() - found.split) < least ||
      found.step > kStepFitsBetter * found.line) {
    return {};
  }
  const auto earlier = std::span(parts).first(found.split);
  const auto later = std::span(parts).subspan(found.split);
  const auto [earlier_low, earlier_high] = std::minmax_element(earlier.begin(), earlier.end());
  const auto [later_low, later_high] = std::minmax_element(later.begin(), later.end());
  const double before = median({earlier.begin(), earlier.end()});
  const double after = median({later.begin(), later.end()});
  const double spread = std::max({deviation(earlier), deviation(later), kLeastSpread});
  if ((*later_low <= *earlier_high && *later_high >= *earlier_low) ||
      std::abs(after - before) < std::max(std::log1p(settings_.long_share), kPartSpreads * spread)) {
    return {};
  }
  // The step lies within a part of the split.
  const size_t from = x.size() % kPart + (found.split - 2) * kPart;
  const Fit near = fit({x.begin() + static_cast<std::ptrdiff_t>(from),
                        x.begin() + static_cast<std::ptrdiff_t>(from + 4 * kPart)});
  const size_t step = values_[from + near.split].step;
  const auto change = change_of(model::ChangeKind::level_shift, step, next_ - 1, before, after);
  forget_before(step);
  return change;
}

// Page and Hinkley's sums, against the level after the latest change.
std::optional<model::StepChange> ChangeDetector::ramp() {
  if (reference_.size() < kReference) {
    return {};
  }
  const Value& value = values_.back();
  if (reference_.back().step == value.step) {
    start_ = baseline_of(reference_);
    rise_step_ = fall_step_ = value.step;
  }
  const double distance = value.log_seconds - start_.level;
  const double slack = std::max(kRampSlack, start_.spread / 2);
  const auto grow = [&value](double& sum, double by, size_t& since) {
    sum = std::max(0.0, sum + by);
    since = sum > 0 ? since : value.step;
  };
  grow(risen_, distance - slack, rise_step_);
  grow(fallen_, -distance - slack, fall_step_);
  if (std::max(risen_, fallen_) < kRampSum || value.step % kRefresh != 0) {
    return {};
  }
  const auto latest = std::span(values_).last(std::min(values_.size(), kRampWindow));
  if (latest.front().step <= reference_.back().step || !differs(start_, latest, settings_.least_ramp)) {
    return {};
  }
  const Fit all = fit(numbers(values_));
  const double after = median(numbers(std::span(values_).subspan(all.split)));
  if (all.split >= kLeastBefore && all.step < kNoRamp * all.line &&
      values_[all.split].step > reference_.back().step && after - start_.level >= std::log1p(kVeryLarge)) {
    // Steps that vary much, as those of a loader with workers, hide one change from the other tests.
    const size_t step = values_[all.split].step;
    const auto shift = change_of(model::ChangeKind::level_shift, step, next_ - 1, start_.level, after);
    forget_before(step);
    return shift;
  }
  const auto change = change_of(model::ChangeKind::ramp, risen_ > fallen_ ? rise_step_ : fall_step_,
                                next_ - 1, start_.level, median(numbers(latest)));
  forget_before(latest.front().step);
  return change;
}

void ChangeDetector::forget_before(size_t step) {
  std::erase_if(values_, [step](const Value& v) { return v.step < step; });
  reference_ = values_;
  now_ = baseline_of(values_);
  risen_ = fallen_ = 0;
}

void add_change(std::vector<model::StepChange>& changes, const model::StepChange& change) {
  if (!changes.empty()) {
    model::StepChange& last = changes.back();
    if (last.kind == model::ChangeKind::ramp && change.kind == model::ChangeKind::ramp &&
        (last.share > 0) == (change.share > 0) && change.step - last.found_step <= kRampParts) {
      last.found_step = change.found_step;
      last.after_s = change.after_s;
      last.share = last.after_s / last.before_s - 1;
      return;
    }
  }
  changes.push_back(change);
}

std::vector<model::StepChange> find_changes(std::span<const double> seconds, ChangeSettings settings) {
  ChangeDetector detector(settings);
  std::vector<model::StepChange> out;
  for (const double one : seconds) {
    if (const auto change = detector.add(one)) {
      add_change(out, *change);
    }
  }
  return out;
}

}  // namespace xpurun::report
