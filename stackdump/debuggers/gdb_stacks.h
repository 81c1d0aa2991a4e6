// gdb as the last fallback for native stacks: a process that our own engine cannot read, a 32-bit one for
// example. Stops the process for seconds.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/resolve_settings.h"

namespace xpurun::stackdump {

struct GdbThread {
  base::Tid tid = 0;
  std::vector<model::Frame> frames;  // innermost first, kind native; no eval flags
};

// The threads in what "thread apply all bt" printed. Never fails; lines that make no sense are left out.
std::vector<GdbThread> parse_gdb_backtrace(std::string_view text);

// Runs gdb on the process.
base::Result<std::vector<GdbThread>> gdb_stacks(base::Pid pid, const DebuggerSettings& settings);

// Whether gdb is worth trying: our engine was asked to leave it to gdb, or could not get anywhere.
bool wants_gdb(const model::ProcessStacks& stacks, const ResolveSettings& settings);

// Takes gdb's native frames for all threads that it saw; Python frames stay, behind a marker.
void apply_gdb_stacks(model::ProcessStacks& stacks, const std::vector<GdbThread>& threads);

}  // namespace xpurun::stackdump
