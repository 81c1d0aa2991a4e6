// How /proc is mounted, and what that hides from xpurun. Pure; in machine_check.cpp.
#pragma once

#include "commands/doctor/finding.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct ProcMount {
  std::string hidepid;              // "hidepid=2", "hidepid=invisible"; empty: not hidden
  bool pids_only = false;           // subset=pid
  std::vector<std::string> masked;  // places below /proc with a mount of their own
};

// From the text of /proc/PID/mountinfo.
ProcMount proc_mount_in(std::string_view mountinfo);

// `sees_others`: this process may look at other users' processes nevertheless.
Finding judge_proc(const ProcMount& mount, bool sees_others);

}  // namespace xpurun::launcher
