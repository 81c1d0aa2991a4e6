// Forward jobs of a rank that nothing names: the times between its point-to-point operations and its backward
// jobs. Pure.
#pragma once

#include "report/pipeline/jobs/jobs.h"

#include <vector>

namespace xpurun::report {

// A call of the thread that runs the pipeline, in order of the begins.
struct PipelineCall {
  enum class Kind {
    send,
    receive,
    backward,
    optimizer,
    other,  // neither a job nor a part of one: waiting for data, a checkpoint
  };
  Kind kind = Kind::other;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Whether most of these forward jobs end with a send. Sends elsewhere, such as after the optimizer, are no
// exchange between stages.
bool end_with_sends(const std::vector<Job>& forwards, const std::vector<PipelineCall>& calls);
// In each step (up to the optimizer) the longest times before a send or a backward are the forward jobs, one
// for each backward. Nothing for steps in which these do not stand out from the remaining times: then the
// sends belong to something else, such as ring attention.
std::vector<Job> forwards_between(const std::vector<PipelineCall>& calls);

}  // namespace xpurun::report
