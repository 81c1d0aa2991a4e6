// The newest traces and captures of a job, for idle time, queue length and gaps. One file is in memory at a
// time.
#pragma once

#include "common/model/rank_set.h"
#include "report/events/rank_record.h"
#include "report/nodes/job_runs.h"
#include "report/operations/idle/idle_analysis.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

class IdleFiles {
 public:
  // Only these ranks; empty: all. `job` must stay alive.
  IdleFiles(const JobRuns& job, const model::RankSet& ranks);

  // Reads what traces and captures hold of this rank. Call once for each rank.
  void add(const RankRecord& rank);
  // Once, after all ranks: also reads the files of ranks that were not added. In the order of time, without
  // traces in which no rank has work.
  std::vector<model::IdleTime> finish();
  // Unreadable files, after finish().
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct File {
    std::string path;
    bool open_end = false;
    const NodeRun* node = nullptr;
  };
  // Directories of several nodes that belong together.
  struct Record {
    std::string dir;
    int64_t wall_ns = 0;  // on the clock of the first node
    std::map<base::Rank, File> files;
    std::map<const NodeRun*, bool> nodes;
  };

  void find(const NodeRun& node, const char* kind);
  void find_files(const NodeRun& node, const std::string& dir);
  void join(Record record);
  void keep_newest();
  void read(size_t record, const RankRecord& rank, const File& file);

  model::RankSet ranks_;
  std::vector<Record> records_;  // in the order of time
  std::vector<IdleAnalysis> analyses_;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
