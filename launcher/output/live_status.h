// LiveStatus: the state of a job at one moment, for the "status" request, the status line and `xpurun top`.
// Plain data; the table is a pure function.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "common/model/verdict.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace xpurun::launcher {

struct LiveRank {
  base::Rank rank = base::kNoRank;
  std::string host;       // empty: of the job's only node
  base::Pid pid = 0;      // 0: a rank of another node, of which less is known
  char state = '?';       // proc(5): R S D T t Z
  bool alive = true;      // false: the position is the last one before death
  double still_s = 0;     // seconds since the last progress
  double step_s = -1;     // mean of the last steps of training; negative: not known
  double late_s = -1;     // by how much it is late at collectives, in a step; negative: not known
  double cpu_share = -1;  // CPU cores in use; negative: not known
  int64_t rss_bytes = 0;  // memory of the host; 0: not known
  int64_t gpu_bytes = 0;  // GPU memory that PyTorch has allocated; 0: not known
  std::string function;   // innermost line of the user's own code; empty without Python
  std::string file;
  int line = 0;
  std::string where;  // for a rank of another node, instead of the last three
  // For ranks that use a GPU, else 0.
  double flops_per_s = 0;
  double collectives_per_s = 0;
  uint64_t outstanding = 0;     // outstanding collectives
  std::string last_collective;  // "AllReduce 812 of dp", newest call; empty: none
  double untraced_share = -1;   // estimated share of GPU time; negative: unknown
  uint64_t dropped = 0;         // events lost because the ring was full
};

// The progress of the training, as far as a rank shows it.
struct LiveSteps {
  int64_t done = 0;         // 0: unknown
  double step_s = 0;        // mean of the last steps
  double slower_share = 0;  // than before; 0: no slower
  int64_t slower_since = 0;
  int64_t slower_wall_ns = 0;  // begin of that step; 0: unknown
  model::RankSet slow_ranks;   // that keep the others waiting, now
};
// "step 1,204 · 28 ms · 3.0× slower since 21:46, rank 1"; empty if unknown. Times are UTC.
// For a narrow terminal "28 ms · 3.0× slower, rank 1".
enum class StepsWidth { whole, narrow };
std::string steps_line(const LiveSteps& steps, StepsWidth width = StepsWidth::whole);

struct LiveStatus {
  std::string run;  // id
  std::string host;
  std::vector<std::string> command;  // redacted
  double elapsed_s = 0;
  double hang_timeout_s = 0;
  double stall_s = 0;       // seconds since the begin of the open stall; 0: none
  double next_check_s = 0;  // seconds until the next poll
  int world_size = 0;
  std::string timing;      // level: off, light, full
  std::string trace;       // directory of the trace under way, else empty
  std::string problem;     // verdict on the current stall, else empty
  model::Verdict verdict;  // the same, in its parts
  LiveSteps steps;
  std::vector<std::string> gaps;  // nodes whose ranks are not shown, one line each
  // The culprits of the current stall: by its verdict, or before the verdict by the recorded calls.
  model::RankSet culprits;
  std::vector<LiveRank> ranks;
};

// Adds the ranks of other nodes that `other` knows and `own` does not, and its gaps.
void add_other_ranks(const LiveStatus& other, LiveStatus& own);

nlohmann::ordered_json to_json(const LiveStatus& s);
base::Result<LiveStatus> live_status_from_json(std::string_view text);

enum class TableOrder {
  fitting,  // by rank; if not all fit, the oldest progress first
  still,
  cpu,
  rank,
};

// A header and one line per rank. At most `rows` lines; 0: all.
std::string live_table(const LiveStatus& s, size_t columns, size_t rows, const Ink& ink,
                       TableOrder order = TableOrder::fitting);

}  // namespace xpurun::launcher
