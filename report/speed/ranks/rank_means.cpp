#include "report/speed/ranks/rank_means.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

using model::Stage;

constexpr size_t kLeastLeads = 3;
constexpr double kMostApart = 0.05;  // of a step

// Of the steps of which a time is known.
class MeanOfKnown {
 public:
  void add(int64_t ns) {
    sum_ += ns < 0 ? 0 : static_cast<double>(ns) * 1e-9;
    steps_ += ns < 0 ? 0 : 1;
  }
  // Negative: never known.
  double seconds() const { return steps_ > 0 ? sum_ / static_cast<double>(steps_) : -1; }

 private:
  double sum_ = 0;
  size_t steps_ = 0;
};

RankMeans means_of(const JobSteps& job, const OwnTimes& own, StepWindow window, size_t rank) {
  RankMeans out;
  double cpu = 0;
  size_t cpu_steps = 0;
  MeanOfKnown delay;
  MeanOfKnown throttled;
  MeanOfKnown stolen;
  MeanOfKnown lost;
  MeanOfKnown exposed;
  MeanOfKnown hidden;
  std::vector<double> leads;
  std::vector<double> pauses;
  for (size_t i = window.first; i < window.last; ++i) {
    const StepRecord* step = job.at(rank, i);
    if (step == nullptr || own.passed_over(i)) {
      continue;
    }
    ++out.steps;
    out.step_s += static_cast<double>(step->duration_ns) * 1e-9;
    out.working_s += working_seconds(*step);
    if (step->lead_ns >= 0 && step->pause_ns >= 0) {
      leads.push_back(static_cast<double>(step->lead_ns) * 1e-9);
      pauses.push_back(static_cast<double>(step->pause_ns) * 1e-9);
    }
    if (const auto own_s = static_cast<double>(own.step(i)[rank]); own_s >= 0) {
      ++out.known;
      out.own_s += own_s;
      out.wait_s += working_seconds(*step) - own_s;
      out.transfer_s += static_cast<double>(step->transfer_ns) * 1e-9;
    }
    out.backward_cpu_s += static_cast<double>(step->cpu_ns[static_cast<size_t>(Stage::backward)]) * 1e-9;
    out.calls += static_cast<double>(step->calls);
    for (size_t s = 0; s < model::kStepStages; ++s) {
      out.stages.seconds[s] += static_cast<double>(step->stage_ns[s]) * 1e-9;
    }
    for (const Stage stage : {Stage::forward, Stage::backward, Stage::optimizer}) {
      const auto s = static_cast<size_t>(stage);
      out.idle_s += static_cast<double>(std::max<int64_t>(step->stage_ns[s] - step->cpu_ns[s], 0)) * 1e-9;
    }
    if (step->process_ns >= 0) {
      cpu += static_cast<double>(step->process_ns) * 1e-9;
      out.faults += step->faults;
      ++cpu_steps;
    }
    delay.add(step->run_delay_ns);
    throttled.add(step->throttled_ns);
    stolen.add(step->stolen_ns);
    lost.add(lost_cpu_ns(*step));
    exposed.add(step->exposed_ns);
    hidden.add(step->hidden_ns);
  }
  if (out.steps > 0) {
    const auto n = static_cast<double>(out.steps);
    out.idle_s /= n;
    out.backward_cpu_s /= n;
    out.calls /= n;
    out.step_s /= n;
    out.working_s /= n;
    for (double& seconds : out.stages.seconds) {
      seconds /= n;
    }
  }
  for (double* sum : {&out.own_s, &out.wait_s, &out.transfer_s}) {
    *sum = out.known > 0 ? *sum / static_cast<double>(out.known) : -1;
  }
  if (out.known > 0) {
    out.wait_s = std::max(out.wait_s, 0.0);  // rounding may leave a tiny negative wait
  }
  if (cpu_steps > 0) {
    out.cpu_s = cpu / static_cast<double>(cpu_steps);
    out.faults /= static_cast<double>(cpu_steps);
  }
  if (leads.size() >= kLeastLeads) {
    out.lead_s = quantile(leads, 0.5);
    out.pause_s = quantile(pauses, 0.5);
  }
  out.run_delay_s = delay.seconds();
  out.throttled_s = throttled.seconds();
  out.stolen_s = stolen.seconds();
  out.lost_cpu_s = lost.seconds();
  out.exposed_s = exposed.seconds();
  out.hidden_s = hidden.seconds();
  return out;
}

}  // namespace

bool sums_apart(const RankMeans& means) {
  return means.known > 0 &&
         std::abs(means.own_s + means.wait_s - means.working_s) > kMostApart * means.working_s;
}

std::vector<RankMeans> rank_means(const JobSteps& job, const OwnTimes& own, StepWindow window) {
  std::vector<RankMeans> out;
  out.reserve(job.ranks());
  for (size_t r = 0; r < job.ranks(); ++r) {
    out.push_back(means_of(job, own, window, r));
  }
  return out;
}

}  // namespace xpurun::report
