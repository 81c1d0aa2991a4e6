// Reads the captures of a run, of all its nodes.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/nodes/job_runs.h"
#include "report/speed/roles/communicator_links.h"
#include "report/speed/roles/rank_roles.h"

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
// The files profile.json of one capture, of one node or several, and the files beside them. Unreadable files
// are in the notes; the error means that none could be read.
base::Result<model::CaptureReport> read_capture(const std::vector<std::string>& paths);

}  // namespace xpurun::report
