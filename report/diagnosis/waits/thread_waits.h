// What the threads of a process, or two processes of a job, do to each other: one holds the GIL, two wait for
// locks, a child's pipe is full while its parent waits for its end. Read from one dump: it shows who waits in
// what, not who owns a lock of Python's.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The thread that has the GIL for which `waiter` waits; null if it waits for none or nobody has it.
const model::ThreadStack* gil_holder(const model::ProcessStacks& process, const model::ThreadStack& waiter);

// A thread inside acquire() of a lock, or at the beginning of a with statement. Waiting for a condition, an
// event, a queue or a thread is none: it needs no owner.
bool acquires_lock(const model::ThreadStack& thread);
std::vector<const model::ThreadStack*> threads_in_acquire(const model::ProcessStacks& process);

// Blocked in a write to a pipe: the pipe is full, nobody reads.
bool writes_to_full_pipe(const model::ThreadStack& thread);

// "thread 105 (Thread-1)"
std::string thread_words(const model::ThreadStack& thread);

}  // namespace xpurun::report
