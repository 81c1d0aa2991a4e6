// The steps of all ranks side by side: the same step of the job has the same number on all of them.
#pragma once

#include "report/speed/steps/rank_steps.h"

#include <vector>

namespace xpurun::report {

class JobSteps {
 public:
  // Ranks without steps are kept, but have none. Matches the steps of the ranks by time.
  explicit JobSteps(std::vector<RankSteps> ranks);

  size_t ranks() const { return ranks_.size(); }
  size_t steps() const { return steps_; }
  const RankSteps& rank(size_t index) const { return ranks_[index]; }
  RankSteps& rank(size_t index) { return ranks_[index]; }
  // Null if the rank did not have this step, or the step is not in its files.
  const StepRecord* at(size_t rank, size_t step) const;
  StepRecord* at(size_t rank, size_t step);
  // No rank runs ahead of another by more than a step: they wait for each other.
  bool synchronous() const { return synchronous_; }
  // Median over the ranks of their durations without checkpoints and evaluations, by step; in seconds. Of a
  // step with a long one, the duration of the rank that spends most time there.
  std::vector<double> step_seconds() const;
  // The steps that show how long a step takes: not those in which more calls than usual were timed, unless
  // most steps are such.
  std::vector<size_t> usual_steps() const;

 private:
  void align();
  void compare_pace(size_t reference);

  std::vector<RankSteps> ranks_;
  std::vector<size_t> shifts_;  // number of a rank's first step
  size_t steps_ = 0;
  bool synchronous_ = true;
};

// Checkpoints and evaluations of a step, and the step without them.
int64_t aside_ns(const StepRecord& step);
int64_t working_ns(const StepRecord& step);
double working_seconds(const StepRecord& step);

}  // namespace xpurun::report
