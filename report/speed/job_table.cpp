#include "report/speed/job_table.h"

#include "report/speed/levels.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/waits.h"

namespace xpurun::report {

bool on_cpus(const JobSteps& job) {
  for (size_t r = 0; r < job.ranks(); ++r) {
    if (!job.rank(r).gpu.empty()) {
      return false;
    }
  }
  return true;
}

StepTable without_steps(const JobSteps& job) {
  StepTable out{.gpu = !on_cpus(job)};
  for (size_t r = 0; r < job.ranks(); ++r) {
    out.ranks.insert(job.rank(r).rank);
  }
  return out;
}

StepTable table_of(const JobSteps& job, const model::SpeedReport& report,
                   const std::vector<double>& seconds) {
  StepTable out = without_steps(job);
  const OwnTimes own(job, report.waits_measured);
  const StepWindow latest = current_window(report, job.steps());
  for (size_t i = seconds.size() > kWarmUpSteps + kLeastWindow ? kWarmUpSteps : 0; i < seconds.size(); ++i) {
    std::array<double, model::kStepStages> stages{};
    double own_s = 0;
    double ranks = 0;
    bool known = true;
    for (size_t r = 0; r < job.ranks(); ++r) {
      if (const StepRecord* step = job.at(r, i)) {
        for (size_t s = 0; s < stages.size(); ++s) {
          stages[s] += static_cast<double>(step->stage_ns[s]) * 1e-9;
        }
        own_s += static_cast<double>(own.step(i)[r]);
        ranks += 1;
        known = known && own.step(i)[r] >= 0;
      }
    }
    if (ranks > 0) {
      out.level += i < latest.first ? 1 : 0;
      out.own_level += i < latest.first && known ? 1 : 0;
      out.step_s.push_back(static_cast<float>(seconds[i]));
      if (known) {
        out.own_s.push_back(static_cast<float>(own_s / ranks));
      }
      for (size_t s = 0; s < stages.size(); ++s) {
        out.stages_s[s].push_back(static_cast<float>(stages[s] / ranks));
      }
    }
  }
  return out;
}

model::RankSpeed speed_of_rank(const JobSteps& job, size_t index, const RankMeans& means, StepWindow window) {
  const RankSteps& rank = job.rank(index);
  std::vector<double> durations;
  for (size_t i = window.first; i < window.last; ++i) {
    if (const StepRecord* step = job.at(index, i)) {
      durations.push_back(static_cast<double>(step->duration_ns) * 1e-9);
    }
  }
  // Steps with measured waits may take longer, because each call is timed; both parts of them then do.
  const double measured_s = means.own_s + means.wait_s;
  const double shorter = means.known > 0 && measured_s > means.step_s ? means.step_s / measured_s : 1;
  return {.rank = rank.rank,
          .host = rank.host,
          .gpu = rank.gpu,
          .steps = static_cast<int64_t>(rank.steps.size()),
          .step_s = quantile(durations, 0.5),
          .own_s = means.own_s * shorter,
          .wait_s = means.wait_s * shorter,
          .lead_s = means.lead_s,
          .exposed_s = means.exposed_s,
          .hidden_s = means.hidden_s,
          .cpu_s = means.cpu_s,
          .run_delay_s = means.run_delay_s,
          .throttled_s = means.throttled_s,
          .stolen_s = means.stolen_s,
          .faults = means.faults,
          .stages = means.stages};
}

}  // namespace xpurun::report
