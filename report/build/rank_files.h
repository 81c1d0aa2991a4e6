// The span files and event files of the ranks of a job, of all its nodes. One rank is in memory at a time.
#pragma once

#include "common/model/rank_set.h"
#include "report/nodes/job_runs.h"
#include "report/speed/primitives/rank_input.h"

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
  void read(Kinds kinds, const std::function<void(const RankInput&)>& take);

  size_t size() const { return dirs_.size(); }
  // Unreadable files, after read().
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct RankDir {
    std::string path;
    const NodeRun* node = nullptr;
  };

  RankInput read_rank(base::Rank rank, const std::vector<RankDir>& dirs, Kinds kinds);
  template <typename F>
  void keep(const std::string& path, base::Result<F> file, std::vector<F>& to, RankInput& input,
            const NodeRun& node);

  std::map<base::Rank, std::vector<RankDir>> dirs_;
  std::map<const NodeRun*, int64_t> offsets_;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
