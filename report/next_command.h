// The command line that a finding ends with, where there is one to type; empty where only a person can go on.
// Pure but for the question whether a log is there, which build.cpp answers beforehand.
#pragma once

#include "report/run_report.h"

#include <string>

namespace xpurun::report {

// After the verdict: look at the culprit again while it lives, at its recorded stacks or its log afterwards.
std::string verdict_command(const RunReport& report);

// The stacks of one dump of the run, merged.
std::string dump_command(const RunReport& report, const std::string& dump);

// Whether what the command needs is there on this host.
std::string doctor_command(const RunReport& report);

// A directory as one would type it in the directory where the run was started.
std::string typed_path(const std::string& path, const std::string& cwd);

}  // namespace xpurun::report
