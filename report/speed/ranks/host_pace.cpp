#include "report/speed/ranks/host_pace.h"

#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/job_steps.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using model::Stage;

constexpr size_t kBlock = 32;       // steps
constexpr double kNotHeld = 0.985;  // of the GPU's step: a host that needs less runs ahead

// In calls of torch.distributed, a rank may wait for others without a CPU.
int64_t asleep(const StepRecord& step) {
  if (step.process_ns < 0) {
    return 0;
  }
  const int64_t calls = step.stage_ns[static_cast<size_t>(Stage::communication)];
  return std::max<int64_t>(step.host_duration_ns - aside_ns(step) - calls - step.process_ns, 0);
}

}  // namespace

std::vector<int64_t> host_pace(const RankSteps& rank) {
  const bool spins = rank.source == model::StepSource::optimizer || rank.source == model::StepSource::data;
  if (rank.gpu.empty() || !spins) {
    return {};
  }
  std::vector<int64_t> out(rank.steps.size());
  for (size_t first = 0; first < out.size(); first += kBlock) {
    const size_t last = std::min(first + kBlock, out.size());
    std::vector<double> host;
    std::vector<double> gpu;
    for (size_t i = first; i < last; ++i) {
      host.push_back(static_cast<double>(rank.steps[i].host_duration_ns - aside_ns(rank.steps[i])));
      gpu.push_back(static_cast<double>(working_ns(rank.steps[i])));
    }
    const double usual = median(host);
    const bool ahead = usual < kNotHeld * median(gpu);
    for (size_t i = first; i < last; ++i) {
      const int64_t pace = ahead ? static_cast<int64_t>(usual) : asleep(rank.steps[i]);
      out[i] = std::min(pace, working_ns(rank.steps[i]));
    }
  }
  return out;
}

}  // namespace xpurun::report
