// Which exception a busy thread raises and catches again and again. A dump rarely meets such a moment, and a
// hook on all exceptions would cost the job time.
#pragma once

#include "common/base/ids.h"
#include "stackdump/cpython/locals/handled_exception.h"
#include "stackdump/memory/live_memory.h"

#include <vector>

namespace xpurun::stackdump {

// Looks at the main thread, whose Python state is at `state`, many times within about a tenth of a second,
// and stops only this thread, for some microseconds each time. The type is empty if there is no such
// exception.
HandledException caught_again(base::Pid pid, LiveMemory& memory, const Offsets& offsets, Addr state);

// Pure: the latest of the exceptions that several looks have met, raised at one line; empty if there are
// none.
HandledException met_often(std::vector<HandledException> looks);

}  // namespace xpurun::stackdump
