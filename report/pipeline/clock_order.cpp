#include "report/pipeline/clock_order.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <tuple>

namespace xpurun::report {

namespace {

using model::JobKind;
using model::PipelineJob;
using model::PipelineStage;

// Clocks that differ by more are damage, or of another run.
constexpr int64_t kMostShiftNs = int64_t{3600} * 1'000'000'000;

using Key = std::tuple<int, int, int>;  // step, micro-batch, chunk

std::map<Key, const PipelineJob*> jobs_of(const PipelineStage& stage, JobKind kind) {
  std::map<Key, const PipelineJob*> out;
  for (const PipelineJob& job : stage.jobs) {
    if (job.kind == kind && job.step >= 0) {
      out.emplace(Key(job.step, job.micro_batch, job.chunk), &job);
    }
  }
  return out;
}

// The least time in ns from the end of a job of `earlier` to the begin of the job of `later` that needs its
// result. Negative: the clock of `later` is behind, because no job begins before its input is there.
int64_t least_gap(const PipelineStage& earlier, const PipelineStage& later, JobKind kind) {
  int64_t out = std::numeric_limits<int64_t>::max();
  const auto first = jobs_of(earlier, kind);
  for (const auto& [key, job] : jobs_of(later, kind)) {
    if (const auto before = first.find(key); before != first.end()) {
      out = std::min(out, job->begin_ns - before->second->end_ns());
    }
  }
  return out;
}

}  // namespace

std::map<std::string, int64_t> clock_corrections(const model::PipelineReport& report) {
  std::map<std::string, int64_t> total;
  for (const model::Pipeline& pipeline : report.pipelines) {
    for (size_t s = 0; s + 1 < pipeline.stages.size(); ++s) {
      const PipelineStage& a = pipeline.stages[s];
      const PipelineStage& b = pipeline.stages[s + 1];
      total.emplace(a.host, 0);
      if (total.contains(b.host)) {
        continue;
      }
      const int64_t forward = least_gap(a, b, JobKind::forward);
      const int64_t backward = least_gap(b, a, JobKind::backward);
      const bool known =
          forward != std::numeric_limits<int64_t>::max() && backward != std::numeric_limits<int64_t>::max();
      const bool wrong = forward < 0 || backward < 0;
      // The difference lies between -forward and backward.
      const int64_t shift = known && wrong && forward + backward >= 0 ? (backward - forward) / 2 : 0;
      total.emplace(b.host, total[a.host] + (std::abs(shift) > kMostShiftNs ? 0 : shift));
    }
  }
  std::erase_if(total, [](const auto& one) { return one.second == 0; });
  return total;
}

}  // namespace xpurun::report
