// IdleTime: why the GPUs of a trace or a capture had nothing to do, how much work waited for them, and the
// longest gaps. Part of OperationTables. Times are seconds; a negative number is unknown.
#pragma once

#include "common/base/ids.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::model {

// Launched work that had not begun, weighted by time.
struct QueueLength {
  double mean = 0;
  double median = 0;
  double p99 = 0;
  int64_t most = 0;
};

// The GPU of one rank between the first and the last recorded work.
struct RankIdle {
  base::Rank rank = base::kNoRank;
  double window_s = 0;
  int64_t works = 0;  // kernels, collectives, copies
  // As in RankBreakdown: of the calls, and of the GPU time. CUPTI records every kernel: untraced is 0 then.
  double timed_share = -1;
  double untraced_share = -1;
  double idle_s = 0;            // no work was running
  double host_wait_s = 0;       // of it, nothing had been launched
  double kernel_wait_s = 0;     // of it, work had been launched and waited
  double between_steps_s = -1;  // of idle_s, between the work of two steps; negative: no steps are known
  QueueLength queue;
  double others_void_share = -1;  // median of the ranks that do the same work; negative: there is none
  bool outlier = false;           // the GPU was idle for far longer than theirs

  // Share of the time in which no work was running; negative: unknown.
  double void_share() const { return window_s > 0 ? idle_s / window_s : -1; }
};

// No work was running on the GPU of a rank.
struct IdleGap {
  base::Rank rank = base::kNoRank;
  int64_t wall_ns = 0;  // begin
  double seconds = 0;
  double kernel_wait_s = 0;  // the part in which launched work waited
  std::string after;         // work that ended last, "matmul 4096x1024x512 bf16"
  std::string before;        // work that began then
  std::string python;        // innermost span of the host in the middle of the gap: "DataLoader.__next__"
  std::string call;          // call of CUDA at that moment; empty: none or not recorded
};

struct IdleTime {
  std::string dir;     // "traces/1", "captures/2"
  std::string source;  // "timed calls", "CUPTI"
  int64_t wall_ns = 0;
  std::vector<RankIdle> ranks;
  std::vector<IdleGap> gaps;       // the longest first
  std::vector<std::string> notes;  // ranks without numbers, and why
};

}  // namespace xpurun::model
