// PyTorch's Flight Recorder of a live rank: the variables that switch it on, and requests for its dump.
#pragma once

#include "common/base/ids.h"
#include "common/model/evidence/evidence_manifest.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Adds the variables that let every rank record and write its dump below `dir` (absolute, created if
// missing). A variable that the user has set, under its old or new name, stays unchanged. The old names are
// used, because all releases from torch 2.3 on know them. Omits the pipe if `dir` cannot hold one, because
// torch would end the rank.
std::vector<std::string> with_flight_recorder(std::vector<std::string> env, const std::string& dir);

// A rank's pipe and its dump files, from the rank's environment (NAME=VALUE).
struct FlightPaths {
  std::string pipe;                // empty: the rank does not listen
  std::vector<std::string> files;  // possible paths of its dump
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

// Requests a dump from every rank and copies the dumps that arrive to `out_dir`/rank_<rank>. `wait` sleeps a
// moment and returns whether there is time left. Dumps from before the request do not count.
FlightResult force_flight_dumps(const std::vector<FlightRank>& ranks, const std::string& out_dir,
                                const std::function<bool()>& wait, const std::string& proc = "/proc");

}  // namespace xpurun::launcher
