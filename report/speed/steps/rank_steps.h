// What is known of the steps of one rank.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/speed_report.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct StepRecord {
  int64_t begin_ns = 0;  // by the step clock: the GPU's, where it is known
  int64_t duration_ns = 0;
  int64_t host_begin_ns = 0;  // the thread that makes the steps; the next four lines are of this interval
  int64_t host_duration_ns = 0;
  int64_t work_ns = -1;   // begin of its first work on the GPU, no collective; negative: unknown
  int64_t lead_ns = -1;   // how far the host was ahead of the GPU then; negative: unknown
  int64_t pause_ns = -1;  // of the GPU between the collectives before and that work; negative: unknown
  // The part of wait_ns in which the rank did what the last rank did after the collective: that wait cost
  // nothing.
  int64_t overlapped_ns = 0;
  // Of the thread that makes the steps, by model::Stage; a nested span counts for itself only, and the whole
  // of an evaluation or a checkpoint counts as that.
  std::array<int64_t, model::kStepStages> stage_ns{};
  std::array<int64_t, model::kStepStages> cpu_ns{};  // CPU time of that thread in spans
  int64_t wait_ns = 0;      // measured at collectives: until the last rank had arrived
  int64_t transfer_ns = 0;  // measured at collectives: from then on
  // Measured at the collective of all ranks with which the next step begins; negative: unknown.
  int64_t end_wait_ns = -1;
  // Communication that computing does not hide, and that it hides; with waits, negative: unknown.
  int64_t exposed_ns = -1;
  int64_t hidden_ns = -1;
  int32_t calls =
      0;  // of torch.distributed, of the thread that makes the steps; a call inside another is none
  bool waits_known = true;  // every collective of the step was timed, on all ranks
  int64_t process_ns = -1;  // CPU time of all threads; negative: unknown
  int64_t run_delay_ns = -1;
  int64_t throttled_ns = -1;  // by the CPU limit of the control groups
  int64_t stolen_ns = -1;     // by the hypervisor, while the rank used a CPU
  double faults = 0;          // major page faults
};

// Time for which threads of the rank had work and no CPU; negative: unknown. A throttled thread is ready to
// run, so it counts once.
int64_t lost_cpu_ns(const StepRecord& step);

// One rank in a collective.
struct Arrival {
  static constexpr uint32_t kUnknownLead = 0xffffffff;

  uint64_t collective = 0;  // equal on all ranks of the collective, and on no other
  uint64_t next = 0;        // the next one of its communicator
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t lead_us = kUnknownLead;  // from the call to the begin, on a GPU
  bool pair = false;                // a send or a recv: it ends when its own part is done
  bool ends_together = false;       // no rank could leave before all had entered
};

// A time in which a communicator had collectives that were not timed.
struct Hole {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// The calls of a rank on one communicator, or its messages to or from one rank.
struct Traffic {
  bool message = false;
  bool sends = false;  // messages
  uint64_t timed = 0;  // calls
  double bytes = 0;    // of these
  uint64_t first = 0;  // numbers of the calls, timed or not
  uint64_t last = 0;

  void add(uint64_t number, double bytes_of_call);
  // Of all calls, by the mean of those that were timed.
  double total_bytes() const;
};

struct TimedSample {
  int64_t at_ns = 0;
  float seconds = 0;
  uint32_t number = 0;  // of the call among those of its entry
};

inline constexpr std::string_view kGraphShape = "graph ";

// All that is kept of a rank; the spans and events are dropped.
struct RankSteps {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;
  model::StepSource source = model::StepSource::none;
  model::ClockSource clock = model::ClockSource::none;  // of the least certain steps
  double clock_steps = 0;                               // mean of ClockedStep::together
  model::Confidence confidence = model::Confidence::none;
  std::string why;
  std::vector<StepRecord> steps;
  bool cpu_known = false;
  bool spins = false;             // while it waits in calls of MPI
  std::vector<Arrival> arrivals;  // by begin
  std::vector<Hole> holes;        // by begin; they may overlap
  // By a number that is equal on all ranks of the communicator, or on both ranks of the messages.
  std::map<uint64_t, Traffic> traffic;
  bool meets = false;  // in collectives of its GPU in at least every second step
  // Place and name of the spans that took most of a stage's time.
  std::array<std::string, model::kStepStages> places;
  std::array<std::string, model::kStepStages> names;
  // Timed matmuls by function, shape and types, and replays of CUDA graphs by kGraphShape and the order in
  // which the graphs appeared; delays from a call to its start on the GPU: the latest ones, and some of the
  // earlier ones.
  std::map<std::string, std::vector<TimedSample>> shapes;
  std::vector<TimedSample> launch_delays;
  // Timed copies of a few bytes to the host, for each of which the host waits, as in Tensor.item(): by entry.
  std::vector<std::vector<TimedSample>> reads;
};

}  // namespace xpurun::report
