// Guesses the caller of a frame without unwind information: jumps to invalid addresses, PLT stubs, function
// prologues and code with frame pointers (JIT code, hand-written assembly). A guess that cannot be verified
// is not made.
#pragma once

#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/native/modules.h"
#include "stackdump/ptrace/registers.h"

namespace xpurun::stackdump {

std::optional<Registers> guess_caller(const Registers& callee, bool exact, AddrRange stack,
                                      ModuleList& modules, SnapshotMemory& memory);

}  // namespace xpurun::stackdump
