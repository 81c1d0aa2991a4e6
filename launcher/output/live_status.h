// LiveStatus: what a supervisor knows of its job at this moment: the answer to "status" on the control
// socket, the line at the bottom of the terminal, and what `xpurun top` shows. Plain data; the texts are
// pure.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/output/ink.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace xpurun::launcher {

struct LiveRank {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  char state = '?';      // proc(5): R S D T t Z
  bool alive = true;     // false: its last known place
  double still_s = 0;    // since the main thread was last seen to move
  double cpu_share = 0;  // cores
  std::string function;  // innermost Python frame; empty without Python
  std::string file;
  int line = 0;
  // Of ranks that use a GPU; all 0 for others.
  double flops_per_s = 0;
  double collectives_per_s = 0;
  uint64_t outstanding = 0;     // collectives handed to the GPU, not known to have finished
  std::string last_collective;  // "AllReduce 812 of dp", newest call; empty: none
  double untraced_share = -1;   // of the GPU's time, estimated; negative: not known
  uint64_t dropped = 0;         // timed calls that found no room in the ring
};

struct LiveStatus {
  std::string run;  // id
  std::string host;
  std::vector<std::string> command;  // redacted
  double elapsed_s = 0;
  double hang_timeout_s = 0;
  double next_check_s = 0;  // until the ranks are looked at again
  int world_size = 0;
  std::string timing;   // level: off, light, full
  std::string trace;    // directory of a trace that is not finished; else empty
  std::string problem;  // the verdict on a stall that is open; empty while all is well
  std::vector<LiveRank> ranks;
};

nlohmann::ordered_json to_json(const LiveStatus& s);
base::Result<LiveStatus> live_status_from_json(std::string_view text);

// At most `columns` wide.
std::string status_line_text(const LiveStatus& s, size_t columns);
// Header and one line a rank; at most `rows` lines, the stillest ranks first if they do not fit; 0: all.
std::string live_table(const LiveStatus& s, size_t columns, size_t rows, const Ink& ink);

}  // namespace xpurun::launcher
