// The locks of multiprocessing that this process holds. The POSIX semaphore behind such a lock has no owner,
// but each process counts in its own object how often it has acquired the lock.
#pragma once

#include "common/base/clock.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/locate.h"
#include "stackdump/memory/proc_maps.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

// "/dev/shm/sem.mp-x1#4711": the semaphore with a word at this address, the same text in all processes of the
// host. Empty if the address is in no semaphore that processes share.
std::string shared_semaphore(const ProcMaps& maps, Addr address);

// Knows the locks that the process or the parent that it was forked from has made, and those among the
// arguments of a process of multiprocessing. The process may run meanwhile. Stops at `deadline`.
std::vector<model::SharedLock> read_held_locks(RemoteMemory& memory, const PythonRuntime& runtime,
                                             const ProcMaps& maps, base::MonoNs deadline);

}  // namespace xpurun::stackdump
