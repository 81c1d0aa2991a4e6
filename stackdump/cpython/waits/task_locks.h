// The locks of tasks, greenlets and threads. A lock of asyncio, gevent or threading has no owner, but whoever
// is inside of `with lock` keeps the lock's __exit__ on its value stack. CPython 3.11 to 3.15.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/frames.h"

#include <vector>

namespace xpurun::stackdump {

// Sets RawTask::awaits of each task that waits for a lock to the only task that holds the lock, if one does,
// and RawTask::object to "lock". The process may run meanwhile. Stops at `deadline`.
void read_task_locks(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot,
                     base::MonoNs deadline);

// A thread that waits for a lock of `threading`, and the thread that is inside of a `with` block of that
// lock.
struct ThreadLock {
  uint64_t waiter = 0;  // PyThread::thread_id
  uint64_t holder = 0;
};

// Of threads that stand in `with lock` or lock.acquire(), and of locks that exactly one thread has entered:
// another one, or the waiter itself in an outer frame. A lock that was taken by acquire() has no known
// holder. The process may run meanwhile. Stops at `deadline`.
std::vector<ThreadLock> read_thread_locks(RemoteMemory& memory, const Offsets& offsets,
                                          const PySnapshot& snapshot, base::MonoNs deadline);

// Sets ThreadStack::lock of the waiting threads.
void name_lock_holders(const std::vector<ThreadLock>& locks, std::vector<model::ThreadStack>& threads);

}  // namespace xpurun::stackdump
