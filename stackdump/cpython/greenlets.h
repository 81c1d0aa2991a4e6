// The suspended greenlets of a process (gevent, eventlet, greenlet 2 and 3) with their frames. CPython 3.8 to
// 3.13.
#pragma once

#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

// Adds one task for each suspended greenlet, and the code objects of its frames; nothing if the program has
// not imported greenlet. Walks over all objects of the garbage collector; the process may run meanwhile.
// Stops at `deadline`.
void read_greenlets(RemoteMemory& memory, const PythonRuntime& runtime, PySnapshot& snapshot,
                    base::MonoNs deadline);

}  // namespace xpurun::stackdump
