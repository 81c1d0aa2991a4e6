// Why ranks are slow, and what a cause costs the job.
#pragma once

#include "report/speed/ranks/rank_means.h"

#include <optional>
#include <vector>

namespace xpurun::report {

// Who keeps threads from a CPU.
enum class CpuTaker { others, limit, hypervisor };

struct Cause {
  model::SlowCause kind = model::SlowCause::unknown;
  model::Stage stage = model::Stage::other;  // where most of it is spent
  double excess_s = 0;                       // of a step, compared with the other ranks or with before
  double slowdown = 0;                       // gpu_compute: 0.2: the same matmuls take 20 % longer
  CpuTaker taker = CpuTaker::others;         // cpu_contention
  double taken = 0;                          // its share of the time, if it is not `others`
  // Of a change with another cause: so long threads are ready to run and have no CPU in a step, and before;
  // 0: that is little.
  double no_cpu_s = 0;
  double no_cpu_before_s = 0;
  bool on_loaded_machine = false;  // cpu_contention: the other ranks lack the CPU as well
  // host_issue: from the call to the start on the GPU, if the blamed ranks' queues are empty and those of the
  // others are not; else negative. Of a change on all ranks, `others` is before.
  double launch_s = -1;
  double others_launch_s = -1;
  // host_issue: so often in a step the blamed rank waits for a value of its GPU, and seldom another rank;
  // else negative.
  double reads = -1;
  // host_issue without a GPU: so many times the CPU time of the others in a step, also in the backward pass;
  // else negative. `cpu_busy`: the rank computed or was ready to all the time.
  double computes = -1;
  bool cpu_busy = false;
  // more_work: matmuls of a step, if they are more than usual: on the other ranks, or on the same rank
  // before; else negative.
  double matmuls = -1;
  double usual_matmuls = -1;
  bool usual_is_before = false;
  // more_work of all ranks: collectives of a step, and before; else negative.
  double calls = -1;
  double usual_calls = -1;
  bool graphs = false;  // gpu_compute, more_work: replays of CUDA graphs take more of the time than matmuls
};

// The means of all ranks in one of two windows that are compared.
struct MeansOfWindow {
  StepWindow window;
  const std::vector<RankMeans>& means;
};
// Compares the blamed ranks with the others, in the window. `before`: of stages of a pipeline, which differ
// by nature, what they did not differ by then; may be null.
Cause cause_of(const JobSteps& job, const MeansOfWindow& now, const Blame& blame,
               const MeansOfWindow* before);

// Whether a stage of the host takes longer that has no waits for other ranks.
bool seen_on_host(const Cause& cause);

// Of a job on CPUs. Whether the blamed ranks only come out of each of many collectives later than the others,
// whose next one then waits, while nothing else that they do takes longer: that is the transport, and
// nobody's own time.
bool only_leave_collectives_late(const std::vector<RankMeans>& means, const Blame& blame);

// What all ranks spend more time on than before.
Cause cause_of_change(const JobSteps& job, const MeansOfWindow& before, const MeansOfWindow& after);

// Nearly all of it lies between the stages, where other programs on the CPUs do not only slow the steps.
bool between_stages(const std::vector<RankMeans>& before, const std::vector<RankMeans>& after);

// What the limit of a container or the hypervisor takes from all ranks: the median of the ranks. Nothing if
// less than `least` of the time.
std::optional<Cause> taken_from_all(const std::vector<RankMeans>& means, double least);

// The share of a step that would be won if no rank spent time on a cause; largest first, those above
// `least`.
std::vector<model::CauseShare> what_if(const JobSteps& job, const OwnTimes& own, StepWindow window,
                                       double least);

}  // namespace xpurun::report
