// Dumps live processes together and waits for the result, for commands without an event loop.
#pragma once

#include "common/base/result.h"
#include "common/model/stack_snapshot.h"
#include "launcher/stacks/dump_job.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct LiveDump {
  std::string directory;  // exists; gets a file for each process
  double pause_limit_s = 0.1;
  bool debuggers = false;       // helpers may call a debugger, which takes up to 80 s
  bool keep_snapshots = false;  // beside each process's file
  std::vector<std::string> helper_options;
};

struct LiveDumpResult {
  StackDumpOutcome outcome;
  std::string complaints;  // standard error of helpers that ended without a result
};

base::Result<LiveDumpResult> dump_live(const LiveDump& dump, const std::vector<DumpTarget>& targets);

// The stacks of every process of the outcome. A process whose file is missing or unreadable gets status
// failed.
std::vector<model::ProcessStacks> load_dumped(const std::string& directory, const StackDumpOutcome& outcome);

}  // namespace xpurun::launcher
