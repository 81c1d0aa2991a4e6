// Runs another debugger for us: both of its outputs drained at once, ended with everything that it started
// when its time is over. Blocks the caller until then. The target runs on, however the debugger or we end.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/debuggers/tracer_guard.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::stackdump {

struct ToolOutput {
  std::string out;
  std::string err;
  int exit_status = 0;  // 128 + N if it died of signal N
  ToolEnd end = ToolEnd::exited;
};

// argv[0] is looked up in PATH. `target` is the process that the tool attaches to, 0 if none. Fails if the
// tool cannot be started, and if a thread of the target stays in uninterruptible sleep, before or after the
// tool has begun: no debugger can stop such a thread, and the other threads would stand still meanwhile.
base::Result<ToolOutput> run_tool(const std::vector<std::string>& argv, int64_t limit_ns,
                                  base::Pid target = 0);

// Whether a program of this name can be run; names with a slash are taken as they are.
bool tool_exists(const std::string& program);

}  // namespace xpurun::stackdump
