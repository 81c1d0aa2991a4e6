#include "report/compare/verdict.h"

#include "common/base/tr.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace xpurun::report {

namespace {

using model::ComparedMetric;
using model::Judgement;
using model::MetricKind;

constexpr size_t kNamed = 3;
constexpr double kLargeEnough = 0.10;
constexpr double kLeastPart = 0.01;                  // of a step
constexpr std::string_view kAllRanks = "all ranks";  // as ComparedMetric::ranks

bool differs(const ComparedMetric& m) {
  return m.judgement == Judgement::slower || m.judgement == Judgement::faster;
}

std::string stage_words(const std::string& stage) {
  const auto known = model::from_name<model::Stage>(stage);
  switch (known.value_or(model::Stage::other)) {
    case model::Stage::data:
      return base::tr("waiting for the next batch");
    case model::Stage::forward:
      return base::tr("the forward pass");
    case model::Stage::backward:
      return base::tr("the backward pass");
    case model::Stage::optimizer:
      return base::tr("the optimizer");
    case model::Stage::communication:
      return base::tr("communication");
    case model::Stage::garbage:
      return base::tr("garbage collection");
    default:
      return base::tr("the program's own code between the stages");
  }
}

// "takes 25 ms (80 %) longer on all ranks"
std::string difference(const ComparedMetric& m) {
  const double change = std::abs(m.b_s - m.a_s);
  const std::string how_much = m.effect < 10
                                   ? fmt::format("{} ({})", call_time(change), percent(std::abs(m.effect)))
                                   : call_time(change);
  const std::string where = m.ranks.empty()        ? ""
                            : m.ranks == kAllRanks ? base::tr(" on all ranks")
                                                   : base::tr(" on rank {}", m.ranks);
  const std::string words = metric_words(m.kind, m.name);
  return m.effect > 0 ? base::tr("{} takes {} longer{}", words, how_much, where)
                      : base::tr("{} takes {} less time{}", words, how_much, where);
}

// What explains a difference of the steps, from the best: parts of a step that changed in the same direction
// on the ranks whose own time differs, on all ranks; what takes little of a step; single ranks that wait for
// others.
int place_of(const ComparedMetric& m, const ComparedMetric& step, const std::string& culprits) {
  const bool against = differs(step) && m.effect * step.effect < 0;
  if (against || std::abs(m.step_share) < kLeastPart) {
    return 2;
  }
  const bool everywhere = culprits.empty() || m.ranks.empty() || m.ranks == kAllRanks;
  return everywhere ? 1 : m.ranks == culprits ? 0 : 3;
}

// The differences besides the step. Own time says less than the stages and calls.
std::vector<const ComparedMetric*> reasons(const model::Comparison& c) {
  const auto own = std::find_if(c.metrics.begin(), c.metrics.end(), [](const ComparedMetric& m) {
    return m.kind == MetricKind::own && differs(m) && m.ranks != kAllRanks;
  });
  const std::string culprits = own == c.metrics.end() ? "" : own->ranks;
  std::vector<const ComparedMetric*> out;
  for (const ComparedMetric& m : c.metrics) {
    if (differs(m) && m.kind != MetricKind::step && m.kind != MetricKind::own) {
      out.push_back(&m);
    }
  }
  const ComparedMetric& step = c.metrics.front();
  std::stable_sort(out.begin(), out.end(), [&](const auto* x, const auto* y) {
    return place_of(*x, step, culprits) < place_of(*y, step, culprits);
  });
  return out;
}

std::string listed(const std::vector<const ComparedMetric*>& all) {
  std::string out;
  for (size_t i = 0; i < std::min(all.size(), kNamed); ++i) {
    out += (i == 0 ? "" : "; ") + difference(*all[i]);
  }
  return all.size() > kNamed ? out + base::tr("; further differences: {}", all.size() - kNamed)
                             : out + base::tr("; everything else is within the noise");
}

}  // namespace

std::string call_time(double seconds) {
  return seconds < 999.5e-6 && seconds > 0 ? fmt::format("{:.3g} us", seconds * 1e6) : short_seconds(seconds);
}

std::string signed_percent(double share) {
  return std::abs(share) < 0.0995 ? fmt::format("{:+.1f} %", share * 100)
                                  : fmt::format("{:+.0f} %", share * 100);
}

std::string metric_words(MetricKind kind, const std::string& name) {
  switch (kind) {
    case MetricKind::step:
      return base::tr("a step");
    case MetricKind::own:
      return base::tr("a rank's own part of a step");
    case MetricKind::stage:
      return stage_words(name);
    case MetricKind::matmul:
      return base::tr("the matmul {}", name);
    case MetricKind::collective:
      return base::tr("{} with waiting", name);
    case MetricKind::transfer:
      return base::tr("{} after the last arrival", name);
    case MetricKind::skew:
      return base::tr("the skew of the ranks at {}", name);
    case MetricKind::delay:
      return base::tr("the start of a matmul after its call");
    case MetricKind::kernel:
      return base::tr("the kernel {}", name);
    case MetricKind::memory:
    case MetricKind::program_call:
      break;
  }
  return name;
}

std::string comparison_sentence(const model::Comparison& c) {
  if (c.metrics.empty()) {
    return base::tr("nothing can be compared: A and B have no step and no operation in common");
  }
  const bool tested = std::any_of(c.metrics.begin(), c.metrics.end(),
                                  [](const auto& m) { return m.judgement != Judgement::unclear; });
  if (!tested) {
    return base::tr("nothing can be said: there are too few steps and calls");
  }
  const ComparedMetric& step = c.metrics.front();
  const bool steps = step.kind == MetricKind::step && step.judgement != Judgement::unclear;
  const auto others = reasons(c);
  // Much longer, but not certainly: that is not the same.
  const bool uncertain = steps && !differs(step) && std::abs(step.effect) >= kLargeEnough;
  std::string times =
      steps ? base::tr("{} a step instead of {}", call_time(step.b_s), call_time(step.a_s)) : "";
  if (steps && differs(step)) {
    const std::string much = percent(std::abs(step.effect));
    const std::string head = step.effect >= 1
                                 ? base::tr("B takes {:.1f} times as long, {}", step.effect + 1, times)
                             : step.effect > 0 ? base::tr("B is {} slower, {}", much, times)
                                               : base::tr("B is {} faster, {}", much, times);
    // What the slower run says of its ranks names the culprit; the differences also show who waits.
    const std::string& slower = step.effect > 0 ? c.b.finding : c.a.finding;
    const std::string& faster = step.effect > 0 ? c.a.finding : c.b.finding;
    if (!slower.empty() && faster.empty()) {
      return head + base::tr(": ") + (step.effect > 0 ? "" : base::tr("in A, ")) + slower +
             (others.empty() ? "" : base::tr("; ") + listed(others));
    }
    return head + (others.empty() ? base::tr("; no single stage or operation stands out")
                                  : base::tr(": ") + listed(others));
  }
  if (uncertain) {
    const std::string head = base::tr("it is not certain that the steps differ: {}", times);
    return others.empty() ? head : head + base::tr(": ") + listed(others);
  }
  if (others.empty()) {
    return steps
               ? base::tr("no significant difference: {}", times)
               : base::tr("no significant difference between the operations; there are no steps to compare");
  }
  const std::string head =
      steps ? base::tr("the steps take equally long within the noise ({}), but not all their parts", times)
            : base::tr("there are no steps to compare, but operations differ");
  return head + base::tr(": ") + listed(others);
}

}  // namespace xpurun::report
