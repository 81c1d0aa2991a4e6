// JudgedJob: what is known of a job while its findings are made, and what all findings have in common.
#pragma once

#include "common/base/tr.h"
#include "report/speed/changes/change_points.h"
#include "report/speed/latest_blame.h"
#include "report/speed/ranks/causes.h"
#include "report/speed/wording.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

struct JudgedJob {
  JudgedJob(JobSteps& job, model::SpeedReport& out, const std::vector<double>& seconds,
            const std::vector<size_t>& usual, const ChangeSettings& settings, base::Language language);

  const OwnTimes& compared() const { return levelled ? *levelled : own; }
  size_t least_after() const;
  Compared by() const { return {own, compared(), hosts, out.changes, least_after()}; }
  model::Confidence certainty() const;
  // Whether the ranks are seen to do something else for longer, which the load of the machine does not
  // explain.
  bool is_seen(const Blame& blame, StepWindow window) const;
  int64_t begin_of(int64_t step) const;
  model::RankSet set_of(const std::vector<size_t>& ranks) const;
  // The call in which most ranks that are not blamed wait.
  std::string waiting_place(const Blame& blame) const;

  // The one formula of all findings: what a step would win, as a share of the mean step of the window. The
  // same share of a usual step is the time.
  void put_loss(model::SpeedFinding& f, double lost_s) const { put_loss(f, lost_s, mean_step_s, out.step_s); }
  // Of another window, with its mean and its usual step.
  void put_loss(model::SpeedFinding& f, double lost_s, double mean_s, double usual_s) const;
  template <typename F>
  void put_sentence(model::SpeedFinding& f, F&& sentence) const {
    f.sentence = sentence();
    const base::Speaking speaking(language);
    f.spoken = sentence();
  }
  void put_what_if(const model::SpeedFinding& f) const;
  void add(model::SpeedFinding f) const { out.findings.push_back(std::move(f)); }

  JobSteps& job;
  model::SpeedReport& out;
  const std::vector<double>& seconds;
  const std::vector<size_t>& usual;  // JobSteps::usual_steps()
  OwnTimes own;
  std::vector<size_t> stages;        // stages_of()
  std::optional<OwnTimes> levelled;  // own as if the stages of a pipeline were alike
  StepWindow levelled_by;
  const ChangeSettings& settings;
  base::Language language;
  StepWindow window;
  RanksCompared ranks_compared = RanksCompared::none_slow;
  double mean_step_s = 0;     // of the window
  size_t measured_steps = 0;  // of the window: steps with measured waits
  bool inferred = false;      // too few of them; own is inferred from the stages
  std::vector<RankMeans> means;
  std::vector<std::string> hosts;
};

// The less certain one.
model::Confidence lower(model::Confidence a, model::Confidence b);

}  // namespace xpurun::report
