// The command that a finding recommends; empty if no command helps. Pure: build.cpp checks beforehand whether
// a log exists.
#pragma once

#include "report/run/run_report.h"

#include <string>

namespace xpurun::report {

// Recommended after the verdict: dump the culprit again while it lives, later show its recorded stacks or its
// log.
std::string verdict_command(const RunReport& report);

// The stacks of one dump of the run, merged.
std::string dump_command(const RunReport& report, const std::string& dump);

// Whether this host has what the command needs.
std::string doctor_command(const RunReport& report);

// A directory as the user would type it in the directory where the run was started.
std::string typed_path(const std::string& path, const std::string& cwd);

}  // namespace xpurun::report
