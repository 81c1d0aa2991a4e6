// gdb as the last fallback for native stacks, for processes that xpurun's own engine cannot read, for example
// 32-bit processes. Stops the process for seconds.
#pragma once

#include "common/base/result.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/resolve/resolve_settings.h"

namespace xpurun::stackdump {

struct GdbThread {
  base::Tid tid = 0;
  std::vector<model::Frame> frames;  // innermost first, kind native; no eval flags
};

// The threads in the output of "thread apply all bt". Never fails; unparsable lines are skipped.
std::vector<GdbThread> parse_gdb_backtrace(std::string_view text);

// Runs gdb on the process.
base::Result<std::vector<GdbThread>> gdb_stacks(base::Pid pid, const DebuggerSettings& settings);

// Whether to run gdb: the settings choose gdb, or xpurun's engine found no callers.
bool wants_gdb(const model::ProcessStacks& stacks, const ResolveSettings& settings);

// Replaces the native frames of all threads that gdb saw. Python frames stay, after a marker.
void apply_gdb_stacks(model::ProcessStacks& stacks, const std::vector<GdbThread>& threads);

}  // namespace xpurun::stackdump
