#include "report/compare/compare.h"

#include "report/compare/metric_test.h"
#include "report/compare/verdict.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

using model::ComparedMetric;
using model::Judgement;
using model::MetricKind;

using Key = std::pair<MetricKind, std::string>;
using ByKey = std::map<Key, const MetricSamples*>;

// Clocks of hosts agree to this.
constexpr double kLeastSkewS = 20e-6;
constexpr double kNearlyAll = 0.8;  // of the ranks

ByKey by_key(const RunSamples& of) {
  ByKey out;
  for (const MetricSamples& one : of.metrics) {
    out.emplace(Key{one.kind, one.name}, &one);
  }
  return out;
}

// Of the ranks that both sides have: those whose difference is about that of all ranks together.
std::string ranks_that_differ(const MetricSamples& a, const MetricSamples& b, double effect, double least) {
  std::map<base::Rank, double> before(a.ranks.begin(), a.ranks.end());
  std::vector<base::Rank> differ;
  size_t common = 0;
  const double wanted = std::max(std::abs(effect) / 2, least);
  for (const auto& [rank, value] : b.ranks) {
    const auto found = before.find(rank);
    if (found == before.end() || !(found->second > 0)) {
      continue;
    }
    ++common;
    if ((value / found->second - 1) * (effect > 0 ? 1 : -1) >= wanted) {
      differ.push_back(rank);
    }
  }
  if (common < 2 || 2 * common < a.ranks.size() || differ.empty()) {
    return "";
  }
  return static_cast<double>(differ.size()) >= kNearlyAll * static_cast<double>(common)
             ? "all ranks"
             : model::RankSet::of(differ).brief();
}

std::vector<double> spread_of(std::vector<double> blocks) {
  std::vector<double> out;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    if (!blocks.empty()) {
      out.push_back(quantile(blocks, share));
    }
  }
  return out;
}

double tflops(double flop, double seconds) {
  return flop > 0 && seconds > 0 ? flop / seconds / 1e12 : -1;
}

class Comparer {
 public:
  Comparer(const RunSamples& a, const RunSamples& b) : a_(a), b_(b) {
    out_.a = a.side;
    out_.b = b.side;
    out_.most_q = kMostQ;
    out_.least_effect = a.side.gpu && b.side.gpu ? kLeastEffectOnGpus : kLeastEffectOnCpus;
  }

  model::Comparison compare() {
    pair_up();
    correct();
    judge();
    std::stable_sort(out_.metrics.begin(), out_.metrics.end(),
                     [](const auto& x, const auto& y) { return weight(x) > weight(y); });
    out_.sentence = comparison_sentence(out_);
    return std::move(out_);
  }

 private:
  void pair_up() {
    const ByKey of_a = by_key(a_);
    const ByKey of_b = by_key(b_);
    for (const auto& [key, samples] : of_a) {
      if (const auto found = of_b.find(key); found != of_b.end()) {
        add(*samples, *found->second);
      } else if (is_operation(key.first)) {
        out_.only_a.push_back(metric_words(key.first, key.second));
      }
    }
    for (const auto& [key, samples] : of_b) {
      if (is_operation(key.first) && !of_a.contains(key)) {
        out_.only_b.push_back(metric_words(key.first, key.second));
      }
    }
  }

  static bool is_operation(MetricKind kind) {
    return kind == MetricKind::matmul || kind == MetricKind::collective || kind == MetricKind::memory ||
           kind == MetricKind::program_call;
  }

  void add(const MetricSamples& a, const MetricSamples& b) {
    const SeriesDifference d = compare_series(a.blocks, b.blocks);
    if (!(std::max(d.a, d.b) > 0)) {
      return;  // a stage that neither has
    }
    ComparedMetric m{.kind = a.kind,
                     .name = a.name,
                     .a_s = d.a,
                     .b_s = d.b,
                     .a_spread_s = spread_of(a.blocks),
                     .b_spread_s = spread_of(b.blocks),
                     .a_tflops = tflops(a.flop, d.a),
                     .b_tflops = tflops(b.flop, d.b),
                     .a_count = a.count,
                     .b_count = b.count,
                     .effect = d.effect,
                     .superiority = d.superiority,
                     .p = d.p};
    if (a_.side.step_s > 0) {
      const bool of_step =
          a.kind == MetricKind::step || a.kind == MetricKind::own || a.kind == MetricKind::stage;
      m.step_share = of_step                                  ? (d.b - d.a) / a_.side.step_s
                     : a.per_step_s >= 0 && b.per_step_s >= 0 ? (b.per_step_s - a.per_step_s) / a_.side.step_s
                                                              : 0;
    }
    m.ranks = ranks_that_differ(a, b, d.effect, out_.least_effect);
    enough_.push_back(std::min(a.blocks.size(), b.blocks.size()) >= kLeastBlocks);
    out_.metrics.push_back(std::move(m));
  }

  void correct() {
    std::vector<double> p;
    for (size_t i = 0; i < out_.metrics.size(); ++i) {
      if (enough_[i]) {
        p.push_back(out_.metrics[i].p);
      }
    }
    const std::vector<double> q = false_discovery_rates(p);
    size_t at = 0;
    for (size_t i = 0; i < out_.metrics.size(); ++i) {
      out_.metrics[i].q = enough_[i] ? q[at++] : 1;
    }
  }

  void judge() {
    for (size_t i = 0; i < out_.metrics.size(); ++i) {
      ComparedMetric& m = out_.metrics[i];
      const bool large = std::abs(m.effect) >= out_.least_effect &&
                         (m.kind != MetricKind::stage || std::abs(m.step_share) >= kLeastOfStep) &&
                         (m.kind != MetricKind::skew || std::abs(m.b_s - m.a_s) >= kLeastSkewS);
      const bool differs = large && m.q <= kMostQ;
      m.judgement = !enough_[i]    ? Judgement::unclear
                    : !differs     ? Judgement::same
                    : m.effect > 0 ? Judgement::slower
                                   : Judgement::faster;
      m.ranks = differs ? m.ranks : "";
    }
  }

  // Steps first, then what differs, by its part of the step.
  static std::tuple<bool, bool, double, double> weight(const ComparedMetric& m) {
    const bool differs = m.judgement == Judgement::slower || m.judgement == Judgement::faster;
    return {m.kind == MetricKind::step, differs, std::abs(m.step_share), std::abs(m.effect)};
  }

  const RunSamples& a_;
  const RunSamples& b_;
  model::Comparison out_;
  std::vector<bool> enough_;  // values for a test, by metric
};

}  // namespace

model::Comparison compare(const RunSamples& a, const RunSamples& b) {
  return Comparer(a, b).compare();
}

}  // namespace xpurun::report
