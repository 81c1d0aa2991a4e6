// What the ranks of a job did, of all its nodes: below ranks/ of a run directory, else below a directory of
// traces, also those of other tools. One rank is in memory at a time.
#pragma once

#include "common/model/rank_set.h"
#include "report/events/files/record_files.h"
#include "report/nodes/job_runs.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

class RankFiles {
 public:
  // Only these ranks; empty: all. `job` must stay alive.
  RankFiles(const JobRuns& job, const model::RankSet& ranks);

  enum class Kinds { events, all };
  // Calls `take` once for each rank that has files, in the order of the ranks.
  void read(Kinds kinds, const std::function<void(const RankRecord&)>& take);

  size_t size() const { return parts_.size(); }
  // Unreadable files, after read().
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Part {
    RecordFile file;
    RecordOwner owner;
    const NodeRun* node = nullptr;
  };

  RankRecord read_rank(base::Rank rank, const std::vector<Part>& parts, Kinds kinds);

  std::map<base::Rank, std::vector<Part>> parts_;
  std::map<const NodeRun*, int64_t> offsets_;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
