// Jobs of one rank of a training pipeline: forward, backward and optimizer of a micro-batch, as intervals.
// The common form of all inputs of the pipeline view. Plain data.
#pragma once

#include "common/base/ids.h"
#include "common/model/speed/pipeline.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace xpurun::report {

struct Job {
  int64_t begin_ns = 0;  // wall time since 1970
  int64_t end_ns = 0;    // not before begin_ns
  model::JobKind kind = model::JobKind::other;
  int micro_batch = -1;  // negative: not said
  int chunk = -1;
  int64_t number = -1;  // Paddle's number of the job; negative: none
  std::string type;     // Paddle's word; empty: that of the kind
  bool gpu = false;     // GPU time
  bool at_least =
      false;  // some of its work on the GPU was not timed: it may have begun earlier or ended later
};

struct RankJobs {
  base::Rank rank = base::kNoRank;
  int device = -1;   // Paddle: number of the log file
  int machine = -1;  // Paddle: number of the folder machineK; negative: there is none
  std::string host;
  model::JobSource source = model::JobSource::calls;
  std::vector<Job> jobs;            // in order of their begins
  std::vector<int64_t> step_marks;  // ends of steps, as the program said; ascending
  std::set<std::string> groups;     // of its point-to-point operations; equal on all ranks of a group
  bool has_point_to_point = false;
  bool sends_forwards = true;  // what its forward jobs made; the last stage of a pipeline does not
  uint64_t lost = 0;           // spans that found no room
};

// Forward, backward or weight: the jobs that a bubble interrupts.
bool is_pass(model::JobKind kind);
void put_in_order(std::vector<Job>& jobs);

}  // namespace xpurun::report
