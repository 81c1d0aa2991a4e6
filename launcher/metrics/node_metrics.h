// NodeMetrics: the data of one scrape, before the data become text.
#pragma once

#include "common/model/evidence/machine.h"
#include "common/model/speed/throttle_reason.h"
#include "common/model/timing/peaks.h"
#include "common/model/timing/span.h"
#include "launcher/collect/lateness.h"
#include "launcher/collect/rank_timing.h"

#include <array>
#include <string>
#include <vector>

namespace xpurun::launcher {

// For how long a rank had no CPU; negative: unknown.
struct CpuLosses {
  double ready_s = -1;      // of all its threads: ready to run
  double throttled_s = -1;  // by the CPU limit of its control groups
  double stolen_s = -1;     // by the hypervisor
};

// Host memory of a rank; negative: unknown.
struct HostMemory {
  int64_t resident_bytes = -1;  // in RAM
  int64_t helpers_bytes = -1;   // private memory of the processes that it has started
};

// One rank of this node, with or without a GPU call.
struct RankMetrics {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  bool hung = false;
  double still_s = -1;       // seconds since the last progress; negative: not watched
  uint64_t steps = 0;        // steps of training that were seen
  double step_s = -1;        // mean of the last ones; negative: no step was seen
  uint64_t collections = 0;  // of Python's garbage, as of at most a second before the latest one
  uint64_t batches = 0;      // that the program asked its data loaders for
  RankLateness lateness;     // at collectives
  CpuLosses cpu;
  HostMemory memory;
  model::GpuMemory gpu;
  uint64_t events_unwritten = 0;       // events lost because no event file could be written
  const RankTiming* timing = nullptr;  // nullptr: no GPU call yet
};

// Of one GPU, from readings every few seconds.
struct GpuThrottling {
  std::string uuid;
  double observed_s = 0;
  std::array<double, model::kThrottleReasons> throttled_s{};  // by model::ThrottleReason
};

// A rank that is to blame, and the id of the verdict.
struct Culprit {
  base::Rank rank = base::kNoRank;
  std::string reason;
};

struct NodeMetrics {
  std::string version;
  std::string host;
  std::string job;  // labels of the XPU_TIMER_* family and of xpurun_rank_info; empty: unknown
  std::string pod;
  std::string ip;
  bool dumping = false;    // a dump is under way
  double last_dump_s = 0;  // duration of the last dump; 0: no dump yet
  bool shapes = false;     // also serve the atorch_* names
  model::Peaks peaks;
  uint64_t slow_events = 0;                        // times that the job became slower
  uint64_t mismatches = 0;                         // communicators in which different calls have ended
  double lost_rank_s = 0;                          // of all ranks together, in stalls and slower steps
  std::vector<GpuThrottling> gpus;                 // of the node
  std::vector<model::MachineSeries> machine = {};  // what the kernel counts about the node
  std::vector<Culprit> culprits;                   // at the moment
  std::vector<RankMetrics> ranks;
};

}  // namespace xpurun::launcher
