// PipelineFinder: the pipelines of a job, from the activities of its ranks, one after the other, or from jobs
// that are already known.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/speed/pipeline.h"
#include "report/events/groups.h"
#include "report/pipeline/jobs/activity_jobs.h"
#include "report/pipeline/jobs/jobs.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

struct PipelineOptions {
  JobFunctions functions;
  Evidence evidence = Evidence::needed;
  // With a type "pp": its index is the stage, ranks that differ in other indexes are other pipelines. Without
  // groups, the ranks of one group of point-to-point operations are a pipeline, the lowest rank is stage 0.
  std::optional<GroupOrder> groups;
  int64_t first_step = 0;               // number of the first step that was recorded
  std::optional<model::RankSet> ranks;  // the others are left out, as if they did not exist; empty: all

  bool wants(base::Rank rank) const { return !ranks || ranks->contains(rank); }
};

// Nanoseconds to add to the wall times of a host; empty: the clocks were not compared. Then a forward job
// that begins before that of the previous stage has ended shows the difference (clock_order.h).
using ClockOffset = std::function<int64_t(const std::string& host)>;

class PipelineFinder {
 public:
  explicit PipelineFinder(PipelineOptions options) : options_(std::move(options)) {}

  void add(const Activity& activity);
  void add(RankJobs rank);
  size_t ranks() const { return ranks_.size(); }  // with jobs

  // Nothing unless at least two ranks have jobs. Call once.
  std::optional<model::PipelineReport> finish(const ClockOffset& offset);

 private:
  PipelineOptions options_;
  std::vector<RankJobs> ranks_;
};

}  // namespace xpurun::report
