#include "report/speed/changes/run_lengths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace xpurun::report {

namespace {

constexpr double kLeastProbability = 1e-6;
// The prior counts as few values: the level after a change is not known, the spread is, roughly.
constexpr double kPriorWeight = 0.01;
constexpr double kPriorShape = 2;
// Longer runs have the same logarithm to five digits.
constexpr size_t kConstants = 1024;

// log Gamma(shape + 1/2) - log Gamma(shape), of shape = kPriorShape + length / 2.
double gamma_ratio(size_t length) {
  static const std::array<double, kConstants> table = [] {
    std::array<double, kConstants> out{};
    for (size_t i = 0; i < kConstants; ++i) {
      const double shape = kPriorShape + static_cast<double>(i) / 2;
      out[i] = std::lgamma(shape + 0.5) - std::lgamma(shape);
    }
    return out;
  }();
  return length < kConstants ? table[length] : std::log(kPriorShape + static_cast<double>(length) / 2) / 2;
}

}  // namespace

RunLengths::RunLengths(double hazard, double level, double spread)
    : hazard_(1 / hazard), level_(level), spread_(spread) {
  hypotheses_.push_back(prior());
  hypotheses_.back().probability = 1;
}

RunLengths::Hypothesis RunLengths::prior() const {
  return {.length = 0,
          .probability = 0,
          .level = level_,
          .weight = kPriorWeight,
          .shape = kPriorShape,
          .scale = kPriorShape * spread_ * spread_,
          .constant = gamma_ratio(0)};
}

// Adams and MacKay, "Bayesian Online Changepoint Detection" (2007), with a normal-gamma prior: each
// hypothesis is a run length, and its prediction is Student's t. Values are logarithms of seconds.
void RunLengths::add(double value) {
  double changed = 0;
  for (Hypothesis& h : hypotheses_) {
    const double distance = value - h.level;
    const double shrink = h.weight / (h.weight + 1);
    // Student's t with 2 * shape degrees of freedom.
    const double width = 2 * h.scale / shrink;
    const double density = std::exp(h.constant - 0.5 * std::log(std::numbers::pi * width) -
                                    (h.shape + 0.5) * std::log1p(distance * distance / width));
    const double joint = h.probability * density;
    changed += joint * hazard_;
    h.probability = joint * (1 - hazard_);
    h.level += distance / (h.weight + 1);
    h.scale += shrink * distance * distance / 2;
    h.weight += 1;
    h.shape += 0.5;
    h.length += 1;
    h.constant = gamma_ratio(h.length);
  }
  hypotheses_.insert(hypotheses_.begin(), prior());
  hypotheses_.front().probability = changed;
  prune();
}

void RunLengths::prune() {
  double sum = 0;
  for (const Hypothesis& h : hypotheses_) {
    sum += h.probability;
  }
  if (!(sum > 0)) {  // the value fits no hypothesis at all
    hypotheses_.resize(1);
    hypotheses_.front().probability = sum = 1;
  }
  for (Hypothesis& h : hypotheses_) {
    h.probability /= sum;
  }
  std::erase_if(hypotheses_,
                [](const Hypothesis& h) { return h.length > 0 && h.probability < kLeastProbability; });
  while (hypotheses_.size() > kMostLengths) {
    hypotheses_.erase(std::min_element(
        hypotheses_.begin() + 1, hypotheses_.end(),
        [](const Hypothesis& a, const Hypothesis& b) { return a.probability < b.probability; }));
  }
}

double RunLengths::recent(size_t length) const {
  double out = 0;
  for (const Hypothesis& h : hypotheses_) {
    out += h.length <= length ? h.probability : 0;
  }
  return out;
}

}  // namespace xpurun::report
