// The part of a thread's stack that is in use and must be copied.
#pragma once

#include "stackdump/memory/proc_maps.h"
#include "stackdump/ptrace/registers.h"

namespace xpurun::stackdump {

inline constexpr uint64_t kMaxStackCopy = uint64_t{1} << 20;  // of one thread, in bytes

// From the red zone below sp to the thread's control block (fs_base) or the end of the mapping, at most
// kMaxStackCopy. Empty if sp lies in no mapping.
AddrRange stack_range(const Registers& registers, const ProcMaps& maps);

// For a signal handler on an alternate stack (sigaltstack): the used part of the interrupted stack, found
// through the signal frame on the copied stack. Empty without such a frame.
AddrRange interrupted_stack(RemoteMemory& memory, const Registers& registers, AddrRange copied,
                            const ProcMaps& maps);

}  // namespace xpurun::stackdump
