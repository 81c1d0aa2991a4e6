#include "report/speed/ranks/host_pace.h"

#include "report/speed/ranks/job_steps.h"

#include <algorithm>

namespace xpurun::report {

int64_t host_pace_ns(const RankSteps& rank, const StepRecord& step) {
  const bool spins = rank.source == model::StepSource::optimizer || rank.source == model::StepSource::data;
  if (rank.gpu.empty() || !spins || step.process_ns < 0) {
    return 0;
  }
  // In calls of torch.distributed, a rank may wait for others without a CPU.
  const int64_t calls = step.stage_ns[static_cast<size_t>(model::Stage::communication)];
  const int64_t asleep = step.host_duration_ns - aside_ns(step) - calls - step.process_ns;
  return std::clamp<int64_t>(asleep, 0, working_ns(step));
}

}  // namespace xpurun::report
