// Where the interpreter of a process keeps the frames of its threads, for the preload library.
#pragma once

#include "common/base/ids.h"
#include "common/wire/heap_segment.h"

namespace xpurun::launcher {

// Fills `out` and marks it ready if the interpreter is of a known version, and the stack of its main thread
// can be read by these offsets. Try again later.
void tell_python_layout(base::Pid pid, wire::HeapPython& out);

}  // namespace xpurun::launcher
