#include "report/speed/job_table.h"

#include "report/speed/levels.h"
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

}  // namespace xpurun::report
