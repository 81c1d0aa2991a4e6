#include "report/compare/run_samples.h"

#include "report/operations/blocks.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

using model::MetricKind;
using model::Stage;

double mean_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
  }
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

MetricKind kind_of(const OperationSamples& of) {
  if (of.measure != SampleMeasure::duration) {
    return of.measure == SampleMeasure::transfer ? MetricKind::transfer : MetricKind::skew;
  }
  switch (of.kind) {
    case OperationKind::matmul:
      return MetricKind::matmul;
    case OperationKind::collective:
      return MetricKind::collective;
    case OperationKind::memory:
      return MetricKind::memory;
    case OperationKind::program_call:
      return MetricKind::program_call;
    case OperationKind::kernel:
      return MetricKind::kernel;
    case OperationKind::launch:
      break;
  }
  return MetricKind::delay;
}

std::string note_of(const model::SpeedReport& report) {
  if (report.changes.empty()) {
    return "";
  }
  const model::StepChange& change = report.changes.back();
  return fmt::format("became {} {} at step {}", percent(std::abs(change.share)),
                     change.share > 0 ? "slower" : "faster", grouped(change.step));
}

// What the run itself says of its slowness, if it says why.
std::string finding_of(const model::SpeedReport& report) {
  for (const model::SpeedFinding& f : report.findings) {
    const bool says_who = f.problem == model::SpeedProblem::slow_rank;
    if (says_who || (f.problem == model::SpeedProblem::slower && f.cause != model::SlowCause::unknown)) {
      return f.sentence;
    }
  }
  return "";
}

template <typename F>
std::vector<std::pair<base::Rank, double>> by_rank(const model::SpeedReport& report, F&& value) {
  std::vector<std::pair<base::Rank, double>> out;
  for (const model::RankSpeed& rank : report.ranks) {
    if (rank.steps > 0) {
      out.emplace_back(rank.rank, value(rank));
    }
  }
  return out;
}

// The steps since the latest change: before it, the run was another one.
MetricSamples of_steps(MetricKind kind, std::string name, const std::vector<float>& all, size_t first) {
  const std::vector<float> values(all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())),
                                  all.end());
  return {.kind = kind,
          .name = std::move(name),
          .blocks = block_medians(values),
          .count = static_cast<int64_t>(values.size()),
          .per_step_s = mean_of(values)};
}

}  // namespace

RunSamples samples_of(const model::SpeedReport& report, const StepTable& steps,
                      const std::vector<OperationSamples>& operations) {
  RunSamples out;
  out.side = {.ranks = steps.ranks.text(),
              .steps = static_cast<int64_t>(steps.step_s.size()),
              .gpu = steps.gpu,
              .finding = finding_of(report),
              .note = note_of(report)};
  if (!steps.step_s.empty()) {
    out.metrics.push_back(of_steps(MetricKind::step, "", steps.step_s, steps.level));
    out.side.step_s = median(out.metrics.back().blocks);
    out.metrics.push_back(of_steps(MetricKind::own, "", steps.own_s, steps.own_level));
    out.metrics.back().ranks = by_rank(report, [](const auto& r) { return r.own_s; });
    for (size_t s = 0; s < model::kStepStages; ++s) {
      const auto stage = static_cast<Stage>(s);
      // They are not part of step_s.
      if (stage == Stage::checkpoint || stage == Stage::evaluation) {
        continue;
      }
      out.metrics.push_back(
          of_steps(MetricKind::stage, std::string(name_of(stage)), steps.stages_s[s], steps.level));
      out.metrics.back().ranks = by_rank(report, [stage](const auto& r) { return r.stages[stage]; });
    }
  }
  for (const OperationSamples& one : operations) {
    MetricSamples& to = out.metrics.emplace_back();
    to.kind = kind_of(one);
    to.name = one.name;
    to.blocks = one.blocks;
    to.count = one.count;
    to.flop = one.work;
    to.ranks = one.ranks;
    if (!steps.step_s.empty() && to.kind != MetricKind::delay && one.measure == SampleMeasure::duration) {
      to.per_step_s = one.of_a_rank_s / static_cast<double>(steps.step_s.size());
    }
  }
  return out;
}

}  // namespace xpurun::report
