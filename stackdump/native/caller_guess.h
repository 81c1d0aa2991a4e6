// The caller of a frame without unwind information: jumps to nowhere, PLT stubs, function prologues and code
// with frame pointers (JIT code, hand-written assembly). Every guess is checked; no check, no guess.
#pragma once

#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/native/modules.h"
#include "stackdump/ptrace/registers.h"

namespace xpurun::stackdump {

std::optional<Registers> guess_caller(const Registers& callee, bool exact, AddrRange stack,
                                      ModuleList& modules, SnapshotMemory& memory);

}  // namespace xpurun::stackdump
