// Runs another debugger: drains stdout and stderr at the same time, and ends the debugger with all of its
// children when its time limit passes. Blocks the caller until then. The target runs on, however the debugger
// or this process ends.
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
  int exit_status = 0;  // 128 + N if signal N ended the tool
  ToolEnd end = ToolEnd::exited;
};

// argv[0] is looked up in PATH. `target` is the process that the tool attaches to, 0 if none. Fails if the
// tool cannot be started, or if a thread of the target stays in uninterruptible sleep before or after the
// start of the tool: no debugger can stop such a thread, and the other threads would stay stopped all that
// time. `detach_ns`: after the time limit, for a tool that sets breakpoints in the target, which must be
// removed before the tool may be killed.
base::Result<ToolOutput> run_tool(const std::vector<std::string>& argv, int64_t limit_ns,
                                  base::Pid target = 0, int64_t detach_ns = 0);

// Whether a program of this name can be run. A name with a slash is not looked up in PATH.
bool tool_exists(const std::string& program);

}  // namespace xpurun::stackdump
