// The command that a finding recommends; empty if no command helps. Pure: build.cpp has already checked
// whether a log exists.
#pragma once

#include "report/run/run_report.h"

#include <string>

namespace xpurun::report {

// The command after the verdict: dump the culprit again while it lives; later show its recorded stacks or its
// log.
std::string verdict_command(const RunReport& report);

// Puts the file to read, or the command that shows it, into the next step of the verdict. `page`:
// report.html, as the user would type it; empty if none is written.
void complete_next_step(const RunReport& report, const std::string& page, model::Verdict& verdict);

// Shows the merged stacks of one dump of the run.
std::string dump_command(const RunReport& report, const std::string& dump);

// Checks whether this host has the requirements of the command.
std::string doctor_command(const RunReport& report);

// A directory as the user would type it from the directory where the run was started.
std::string typed_path(const std::string& path, const std::string& cwd);

}  // namespace xpurun::report
