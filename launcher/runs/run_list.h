// The run directories below one directory, and whether each run is live. Reads only; follows no links.
#pragma once

#include "common/base/result.h"
#include "common/model/run_manifest.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::launcher {

enum class RunLife {
  ended,
  killed,   // no recorded end, and neither xpurun nor the processes of the job are alive
  running,  // its xpurun is alive
  left,     // its xpurun is gone, but processes of the job are alive
  unknown,  // no recorded end, on another host
};

struct RunEntry {
  std::string name;  // name of the directory
  std::string path;
  model::RunManifest manifest;
  RunLife life = RunLife::ended;
  uint64_t bytes = 0;  // size on disk
  int64_t ended_wall_ns = 0;
};

// Newest first. A directory is a run directory if its run.json is valid and names this directory: a copied
// run.json does not make another directory a run. Other directories are skipped.
base::Result<std::vector<RunEntry>> list_runs(const std::string& runs_dir);
// One run directory, which may have any name.
base::Result<RunEntry> read_run(const std::string& path);

bool may_be_removed(RunLife life);
// "exit 0", "SIGSEGV", "hang (ended)", "running", "killed".
std::string outcome_text(const RunEntry& run);

}  // namespace xpurun::launcher
