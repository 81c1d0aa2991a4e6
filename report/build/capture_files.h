// Reads the captures of a run, of all its nodes.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/nodes/job_runs.h"
#include "report/speed/communicator_links.h"
#include "report/speed/rank_roles.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Captures {
  std::vector<model::CaptureReport>
      reports;                     // in the order of time; those of several nodes at a time are one
  std::vector<std::string> notes;  // unreadable files
};

// Ranks are compared with those of the same role.
Captures read_captures(const JobRuns& job, const RankRoles& roles = {}, const CommunicatorLinks& links = {});
// The file profile.json of one capture, and the files beside it.
base::Result<model::CaptureReport> read_capture(const std::string& path);

}  // namespace xpurun::report
