// Selects and removes old runs. select_runs is pure. remove_run deletes one directory tree through
// descriptors; it follows no link and does not cross file systems.
#pragma once

#include "common/base/result.h"
#include "launcher/runs/run_list.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct PruneRules {
  std::optional<size_t> keep;          // remove all but the newest N
  std::optional<double> older_than_s;  // runs that ended before this time
  std::optional<uint64_t> max_bytes;   // remove the oldest runs until the rest fits

  bool any() const { return keep || older_than_s || max_bytes; }
};

struct PruneChoice {
  const RunEntry* run;
  std::string why;
};

// `runs` is sorted newest first. A run that any rule names is removed, unless it is live.
std::vector<PruneChoice> select_runs(const std::vector<RunEntry>& runs, const PruneRules& rules,
                                     int64_t now_wall_ns);

// run.json is removed last, so an interrupted removal can be repeated. Fails without removing anything if the
// run is live or the directory has been replaced.
base::Status remove_run(const std::string& runs_dir, const RunEntry& run);

// Points `latest` at the newest of `left`, or removes the link with the last run. A valid link stays.
void mend_latest(const std::string& runs_dir, const std::vector<RunEntry>& left);

}  // namespace xpurun::launcher
