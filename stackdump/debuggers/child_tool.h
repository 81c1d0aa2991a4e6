// Runs another debugger for us: in a process group of its own, both of its outputs drained at once, ended as
// a whole when its time is over. Blocks the caller until then; nothing is left behind but what the tool
// detached.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::stackdump {

struct ToolOutput {
  std::string out;
  std::string err;
  int exit_status = 0;  // 128 + N if it died of signal N
  bool timed_out = false;
};

// argv[0] is looked up in PATH. Fails only if it cannot be started.
base::Result<ToolOutput> run_tool(const std::vector<std::string>& argv, int64_t limit_ns);

// Whether a program of this name can be run; names with a slash are taken as they are.
bool tool_exists(const std::string& program);

// A debugger that was killed while it attached may leave the process stopped. `state_before` is its proc(5)
// state then: a process that somebody else had stopped stays so.
void keep_running(base::Pid pid, char state_before);

}  // namespace xpurun::stackdump
