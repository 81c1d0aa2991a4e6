// The tasks of asyncio: which coroutines each task is in, and what it awaits. CPython 3.8 to 3.15, no
// free-threaded builds.
#pragma once

#include "stackdump/cpython/frames.h"
#include "stackdump/native/modules.h"

namespace xpurun::stackdump {

// Sets the tasks of the snapshot and adds the code objects of their frames. The process may run meanwhile: a
// task that moves may be left out. Stops at `deadline`.
void read_tasks(RemoteMemory& memory, const PythonRuntime& runtime, ModuleList& modules, PySnapshot& snapshot,
                base::MonoNs deadline);

}  // namespace xpurun::stackdump
