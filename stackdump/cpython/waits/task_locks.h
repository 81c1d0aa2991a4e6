// The locks of tasks and greenlets. A lock of asyncio or gevent has no owner, but a task inside of `with
// lock` keeps the lock's __exit__ on its value stack. CPython 3.11 to 3.13.
#pragma once

#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

// Sets RawTask::awaits of each task that waits for a lock to the only task that holds the lock, if one does,
// and RawTask::object to "lock". The process may run meanwhile. Stops at `deadline`.
void read_task_locks(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot,
                     base::MonoNs deadline);

// The size of the value stack that the handler of an instruction keeps, from co_exceptiontable; 0 without a
// handler. `index` counts instructions of two bytes. Public for tests.
size_t kept_depth(std::string_view table, int64_t index);

}  // namespace xpurun::stackdump
