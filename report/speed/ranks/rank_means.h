// Means over a window of steps, per rank: the input of the cause rules.
#pragma once

#include "report/speed/ranks/slow_ranks.h"

#include <vector>

namespace xpurun::report {

struct RankMeans {
  size_t steps = 0;
  size_t known =
      0;  // steps with a known own time; the next three are means of these, negative: there is none
  double own_s = 0;
  double wait_s = 0;
  double transfer_s = 0;    // of collectives, after the last rank had arrived
  double idle_s = 0;        // of the thread in forward, backward and the optimizer, without measured waits
  double cpu_s = -1;        // of the process; negative: unknown
  double run_delay_s = -1;  // negative: unknown
  double throttled_s = -1;  // likewise
  double stolen_s = -1;     // likewise
  double lost_cpu_s = -1;   // likewise: all three
  double step_s = 0;        // duration
  double working_s = 0;     // of it, outside of checkpoints and evaluations
  double lead_s = -1;       // median: so far is the host ahead at a step's first work; negative: unknown
  double pause_s = -1;      // median: pause of the GPU before that work; negative: unknown
  double exposed_s = -1;    // communication that computing does not hide; negative: unknown
  double hidden_s = -1;     // likewise, that it hides
  double faults = 0;
  double backward_cpu_s = 0;  // of the thread, in the backward pass
  double calls = 0;           // of torch.distributed
  model::StageSeconds stages;
};

// Whether own time and waits are not the step.
bool sums_apart(const RankMeans& means);

std::vector<RankMeans> rank_means(const JobSteps& job, const OwnTimes& own, StepWindow window);

}  // namespace xpurun::report
