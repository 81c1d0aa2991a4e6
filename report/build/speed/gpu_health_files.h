// Reads what was watched of the GPUs of all nodes of a run, and joins it with the ranks.
#pragma once

#include "common/model/evidence/gpu_health.h"
#include "report/events/rank_record.h"
#include "report/nodes/job_runs.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

class GpuHealthFiles {
 public:
  explicit GpuHealthFiles(const JobRuns& job);

  void add(const RankRecord& rank);
  // By rank. Times are those of the clock that the node of the report has.
  model::GpuCapture between(int64_t from_wall_ns, int64_t until_wall_ns) const;
  // Unreadable files.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<std::pair<model::GpuHealth, int64_t>> nodes_;  // and the offset of the node's clock
  std::map<base::Rank, std::string> uuids_;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
