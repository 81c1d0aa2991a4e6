// Which runs are to be removed, and the removal. select_runs is pure; remove_run deletes one directory tree
// through descriptors, follows no link and leaves no file system.
#pragma once

#include "common/base/result.h"
#include "launcher/runs/run_list.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct PruneRules {
  std::optional<size_t> keep;          // all but so many of the newest
  std::optional<double> older_than_s;  // ended longer ago
  std::optional<uint64_t> max_bytes;   // oldest first, until the rest fits

  bool any() const { return keep || older_than_s || max_bytes; }
};

struct PruneChoice {
  const RunEntry* run;
  std::string why;
};

// Of `runs`, newest first. A run that any rule names goes, unless it lives.
std::vector<PruneChoice> select_runs(const std::vector<RunEntry>& runs, const PruneRules& rules,
                                     int64_t now_wall_ns);

// run.json goes last: an interrupted removal leaves a run directory that can be removed again. Fails, and has
// removed nothing, if the run has come to life or the directory is another one by now.
base::Status remove_run(const std::string& runs_dir, const RunEntry& run);

// `latest` points at the newest of `left`, or is removed with the last run. Left alone if it is fine.
void mend_latest(const std::string& runs_dir, const std::vector<RunEntry>& left);

}  // namespace xpurun::launcher
