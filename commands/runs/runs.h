// The parts of xpurun runs. For runs*.cpp only.
#pragma once

#include "commands/commands.h"
#include "launcher/runs/run_list.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// runs_text.cpp: pure
std::string runs_table(const std::vector<RunEntry>& runs, size_t columns);
std::string runs_json(const std::vector<RunEntry>& runs);
std::string run_details(const RunEntry& run, size_t columns);

// runs_prune.cpp
int prune_runs(const Invocation& call, const std::string& runs_dir);

}  // namespace xpurun::launcher
