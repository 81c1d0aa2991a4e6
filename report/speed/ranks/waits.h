// Which part of each step a rank waited for others. In synchronous training the steps of all ranks last
// equally long; the rank that costs the others time is the rank that waits least.
#pragma once

#include "report/speed/ranks/job_steps.h"

#include <span>
#include <vector>

namespace xpurun::report {

// Steps [first, last).
struct StepWindow {
  size_t first = 0;
  size_t last = 0;

  size_t size() const { return last - first; }
};

// Sets StepRecord::wait_ns from the arrivals at collectives: a rank waits in a collective until the last rank
// has arrived. The clocks of the hosts are corrected by the ends of collectives, which all ranks reach at
// about the same time. Tells which steps have waits that are known. Drops the arrivals. False if no
// collective was seen on two ranks.
bool measure_waits(JobSteps& job);

// Seconds of a step in which a rank did not wait, by step and rank; negative: not known.
class OwnTimes {
 public:
  // `measured`: measure_waits() found collectives.
  OwnTimes(const JobSteps& job, bool measured);
  // Of all waits, only those at the ends of steps count, which are known of every step, with or without a
  // look.
  static OwnTimes by_ends(const JobSteps& job);

  // Only measured waits count, none that CPU times show.
  static OwnTimes by_arrivals(const JobSteps& job);
  // The time that ranks spend in a stage, for which no rank waits for others.
  static OwnTimes of_stage(const JobSteps& job, model::Stage stage);

  std::span<const float> step(size_t step) const { return std::span(own_).subspan(step * ranks_, ranks_); }
  // A single step that lasts very long, such as one in which kernels are compiled: nothing of it counts.
  void pass_over(size_t step);
  bool passed_over(size_t step) const { return passed_over_[step]; }
  // Stages of a pipeline differ by nature: adds to the times of each group of ranks what its median in
  // `before` lacks to that of the slowest group. `groups`: of each rank. False if too little is known of some
  // group.
  bool level(const std::vector<size_t>& groups, StepWindow before);
  size_t ranks() const { return ranks_; }
  size_t steps() const { return ranks_ == 0 ? 0 : own_.size() / ranks_; }

 private:
  explicit OwnTimes(const JobSteps& job);
  void add_overlapped(const JobSteps& job, size_t step);

  size_t ranks_;
  std::vector<float> own_;
  std::vector<bool> passed_over_;  // by step
};

}  // namespace xpurun::report
