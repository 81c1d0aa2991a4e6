// asyncio in the stacks of a process: what its tasks await, and code that blocks an event loop.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The thread runs an event loop, which waits for events.
bool loop_waits(const model::ThreadStack& thread);
// The thread runs an event loop, and its code does not return to the loop.
bool blocks_loop(const model::ThreadStack& thread);

// The thread serves the requests of a server of `socketserver` or gRPC; its other threads handle them.
bool serves_requests(const model::ThreadStack& thread);

// The thread stops a server of `socketserver`, whose loop it runs, and waits for the end of that loop.
bool stops_own_server(const model::ThreadStack& thread);

// The line of the user's code that the task is in, with the innermost coroutine as the called function.
model::CodeLocation place_of(const model::AsyncTask& task);

// The type of the exception that has ended the task, "ValueError"; empty: the task goes on.
std::string exception_of(const model::AsyncTask& task);

// A task that an exception has ended, while others wait; null: none.
const model::AsyncTask* failed_task(const model::ProcessStacks& process);

// The task waits for a lock that a task of the list holds.
bool waits_for_task_lock(const model::AsyncTask& task);

// The task that this one awaits, where it is awaited by that one, perhaps through others; null: no circle.
const model::AsyncTask* awaited_in_circle(const model::ProcessStacks& process, const model::AsyncTask& task);

// The task waits for a lock of a task that waits, perhaps through others, for a lock of this one.
bool in_lock_circle(const model::ProcessStacks& process, const model::AsyncTask& task);

// The tasks that do not merely wait for other tasks of the list, or for several at once. Those that hold a
// lock that others wait for, or await each other, come first, those that wait for such a lock last.
std::vector<const model::AsyncTask*> last_tasks(const model::ProcessStacks& process);

// The tasks of the process only check something now and then, or wait for such tasks: what they look for may
// come.
bool only_checks(const model::ProcessStacks& process);

}  // namespace xpurun::report
