// Which part of a thread's stack is in use and worth copying.
#pragma once

#include "stackdump/memory/proc_maps.h"
#include "stackdump/ptrace/registers.h"

namespace xpurun::stackdump {

inline constexpr uint64_t kMaxStackCopy = uint64_t{1} << 20;  // of one thread, in bytes

// From the red zone below sp to the thread's control block (fs_base) or the end of the mapping, at most
// kMaxStackCopy. Empty if sp points nowhere.
AddrRange stack_range(const Registers& registers, const ProcMaps& maps);

// A handler that runs on an alternate stack: the used part of the stack that the signal interrupted, from the
// signal frame that the kernel left on the copied one. Empty if there is none.
AddrRange interrupted_stack(RemoteMemory& memory, const Registers& registers, AddrRange copied,
                            const ProcMaps& maps);

}  // namespace xpurun::stackdump
