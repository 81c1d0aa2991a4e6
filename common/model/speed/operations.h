// OperationTables: how long the single operations of a run took, from the timed calls of its ranks and from
// the calls of torch.distributed in their spans. Part of SpeedReport. Times are seconds, rates are per
// second; a negative number is unknown.
#pragma once

#include "common/base/ids.h"
#include "common/model/speed/idle_time.h"
#include "common/model/speed/link_class.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::model {

// The timed calls of one row.
struct CallTimes {
  int64_t count = 0;  // of timed calls, all ranks
  double calls = -1;  // of all calls meanwhile: from the numbers of the timed calls
  double median_s = 0;
  double p99_s = 0;
  double total_s = 0;   // of the timed calls
  std::string sources;  // methods that measured the durations (docs/metrics.md): "events, nccl_profiler"
};

struct SlowestRank {
  base::Rank rank = base::kNoRank;
  int64_t count = 0;
  double median_s = 0;
  double excess = 0;     // over the median of the ranks that do the same work: 0.12 is 12 % longer
  bool outlier = false;  // that is far more than these ranks differ
};

// A rank that arrived last at collectives.
struct LateRank {
  base::Rank rank = base::kNoRank;
  int64_t times = 0;  // at how many collectives
  double cost_s = 0;  // waiting time of the others for it, added up over the others
};

struct Lateness {
  double mean_ranks = 0;        // of a meeting; not in files
  int64_t meetings = 0;         // collectives with arrivals from at least two ranks
  double wait_s = 0;            // waiting time of all ranks in them
  double transfer_s = -1;       // median from the last arrival to the last end
  std::vector<LateRank> ranks;  // most costly first; a few
};

struct MatmulRow {
  std::string shape;       // "4096x1024x512", "8 x 512x512x64": batch in front
  std::string types;       // "bf16", "fp8_e4m3 x fp8_e5m2 -> bf16"
  std::string transposes;  // of A and B: "TN"
  double flop = 0;         // of one call
  CallTimes times;
  double tflops = -1;      // at the median
  double peak_share = -1;  // of the data sheet of the ranks' GPU
  std::vector<SlowestRank> slowest;
};

// A rank's own calls of a collective.
struct CollectiveOnRank {
  base::Rank rank = base::kNoRank;
  int64_t count = 0;  // of timed calls
  double median_s = 0;
  // 1e9 bytes at the median, with waiting for others; negative: unknown.
  double algorithm_gb_s = -1;
  double bus_gb_s = -1;
};

struct CollectiveRow {
  std::string communicator;  // its name; may be empty
  std::string group;         // "all ranks", "4 by 1"; may be empty
  std::string members;       // "0-3": the ranks with timed calls
  int size = 0;
  LinkClass link = LinkClass::unknown;  // by the hosts of the ranks
  std::string operation;                // "AllReduce"
  std::string type;                     // "bf16"
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
  double mean_bytes = 0;
  CallTimes times;
  // 1e9 bytes at the median of a rank's own time, which includes waiting for others.
  double algorithm_gb_s = -1;
  double bus_gb_s = -1;
  // The same from the last arrival on.
  double transfer_algorithm_gb_s = -1;
  double transfer_bus_gb_s = -1;
  Lateness lateness;
  std::vector<CollectiveOnRank> ranks;
};

struct MemoryRow {
  std::string operation;  // "cudaMemcpyAsync H2D, pinned"
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
  double mean_bytes = 0;
  CallTimes times;
  double gb_s = -1;  // at the median
  std::vector<SlowestRank> slowest;
};

// Calls of torch.distributed or MPI from one place of the program, in the thread that makes them.
struct ProgramCallRow {
  std::string function;   // "all_reduce"
  std::string place;      // "train.py:40 (main)"; empty: unknown
  std::string ranks;      // "0-3"
  double mean_bytes = 0;  // 0: unknown
  CallTimes times;
  double share = 0;      // mean over the ranks: of the time between a rank's first and last span
  double bus_gb_s = -1;  // of collectives of MPI, from the last arrival on
  Lateness lateness;
};

// How a rank's GPU spent the time between the first and the last timed call.
struct RankBreakdown {
  base::Rank rank = base::kNoRank;
  double window_s = 0;
  // Share of the calls of matmuls, graphs, kernels, collectives and copies that were timed.
  double timed_share = -1;
  // Share of the GPU time in kernels that belong to no library call. An estimate.
  double untraced_share = -1;
  // From the durations of timed calls, scaled up to all calls; on several streams at once, each counts.
  double compute_s = 0;
  double communication_s = 0;
  double memory_s = 0;
  // Of the timed communication, the share that no timed compute of the rank overlaps. Calls that are not
  // timed may overlap it too, so it is the most, unless `exact`.
  double exposed_share = -1;
  double idle_s = -1;  // no call was running; unknown unless `exact`
  bool exact = false;  // nearly all calls were timed: compute_s and so on are the union of the intervals
};

// How the durations of one operation are spread on a rank.
struct RankDurations {
  base::Rank rank = base::kNoRank;
  int64_t count = 0;
  double p5_s = 0;
  double p25_s = 0;
  double median_s = 0;
  double p75_s = 0;
  double p95_s = 0;
  double p99_s = 0;
};

// The steps, and the collectives that take the most time: of many ranks those that differ most.
struct DurationRow {
  std::string name;       // "step", "AllReduce of 4 MiB bf16 on dp of 8 ranks"
  double bytes = 0;       // of a collective, mean; 0: unknown
  double bus_factor = 0;  // bus bandwidth / algorithm bandwidth; 0: no bandwidth
  std::vector<RankDurations> ranks;
};

// Mean time by which the ranks arrive at one kind of collective after the median of the others.
struct LatenessRow {
  std::string name;  // "AllReduce of 4 MiB bf16 on dp of 8 ranks", "all_reduce at train.py:40 (main)"
  std::vector<double> late_s;  // in the order of LatenessMatrix::ranks; negative: the rank takes no part
};

// The collectives at which most time is lost, and of many ranks the latest.
struct LatenessMatrix {
  std::vector<base::Rank> ranks;
  std::vector<LatenessRow> rows;
  bool empty() const { return rows.empty(); }
};

// A circle of MPI_Send that end only because the library buffers their messages.
struct UnsafeSendRow {
  std::string places;       // of the sends: "halo.c:40 (exchange)"
  std::string ranks;        // of all circles at these places
  int64_t times = 0;        // circles among the timed calls
  uint64_t most_bytes = 0;  // of a message
};

struct OperationTables {
  std::vector<RankBreakdown> ranks;
  std::vector<IdleTime> idle;  // of traces and captures, in the order of time
  std::vector<DurationRow> durations;
  std::vector<MatmulRow> matmuls;  // each table: the most time first
  std::vector<CollectiveRow> collectives;
  std::vector<MemoryRow> memory;
  std::vector<ProgramCallRow> program_calls;
  std::vector<UnsafeSendRow> unsafe_sends;  // most frequent first
  LatenessMatrix lateness;
  int64_t left_out = 0;  // rows beyond the limit of a table
  int64_t lost = 0;      // events and spans that found no room on the ranks

  bool empty() const {
    return ranks.empty() && idle.empty() && matmuls.empty() && collectives.empty() && memory.empty() &&
           program_calls.empty();
  }
};

}  // namespace xpurun::model
