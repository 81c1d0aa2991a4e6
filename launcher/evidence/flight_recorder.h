// PyTorch's Flight Recorder of a live rank: the variables that switch it on, and forcing it to write its
// dump.
#pragma once

#include "common/base/ids.h"
#include "common/model/evidence/evidence_manifest.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Adds the variables that let every rank record and write its dump below `dir` (absolute, made if it is not
// there). A variable that the user has set, under its old or new name, stays as it is. The old names are
// used: all releases from torch 2.3 on know them. Without the pipe where `dir` cannot hold one: torch would
// end the rank.
std::vector<std::string> with_flight_recorder(std::vector<std::string> env, const std::string& dir);

// Where a rank's recorder listens and writes, from the rank's environment (NAME=VALUE).
struct FlightPaths {
  std::string pipe;                // empty: the rank does not listen
  std::vector<std::string> files;  // its dump is one of these
};
FlightPaths flight_paths(const std::vector<std::string>& env, base::Rank rank);

struct FlightRank {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
};

struct FlightResult {
  model::EvidenceStatus status = model::EvidenceStatus::ok;
  std::string reason;
};

// Asks every rank for its dump and copies the dumps that arrive to `out_dir`/rank_<rank>. `wait` sleeps a
// moment and says whether there is still time. A dump of before the request does not count.
FlightResult force_flight_dumps(const std::vector<FlightRank>& ranks, const std::string& out_dir,
                                const std::function<bool()>& wait, const std::string& proc = "/proc");

}  // namespace xpurun::launcher
