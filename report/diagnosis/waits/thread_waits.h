// Interactions of the threads of a process, or of two processes of a job: one holds the GIL, two wait for
// locks, or a child's pipe is full while its parent waits for the child's end. Based on one dump, which shows
// the position of each wait but not the owner of a Python lock.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// The thread that holds the GIL that `waiter` waits for; null if it waits for none or no thread holds it.
const model::ThreadStack* gil_holder(const model::ProcessStacks& process, const model::ThreadStack& waiter);

// A thread inside acquire() of a lock, or at the beginning of a with statement. Waits for a condition, an
// event, a queue or a thread do not count: they need no owner.
bool acquires_lock(const model::ThreadStack& thread);
// Of multiprocessing, for its own sake: not for that of a queue or an event.
bool waits_for_shared_lock(const model::ThreadStack& thread);
std::vector<const model::ThreadStack*> threads_in_acquire(const model::ProcessStacks& process);

// Blocked in a write to a pipe, or to a local socket: it is full and no process reads.
bool writes_to_full_pipe(const model::ThreadStack& thread);
// The same of a call of any thread that sleeps in it.
bool is_full(std::string_view syscall, std::string_view file, const std::vector<base::Pid>& peers);

// The threads of a pool of concurrent.futures of which all wait for a result themselves, so that no thread is
// left for the tasks that they wait for. Empty if there is no such pool.
std::vector<const model::ThreadStack*> pool_of_waiters(const model::ProcessStacks& process);
// "ThreadPoolExecutor-0": the name of a pool's thread without its number.
std::string pool_name(const model::ThreadStack& thread);

// A thread beside the main thread that is in the user's code for a pool or a server, and does not wait for
// its next piece of work; null: none.
const model::ThreadStack* thread_at_work(const model::ProcessStacks& process);
// Another thread than the main thread in the user's code, one at work first; null: none.
const model::ThreadStack* thread_in_user_code(const model::ProcessStacks& process);

// The thread waits until each item of a queue.Queue is done, and all threads that know the queue wait for its
// next item.
bool lacks_task_done(const model::ProcessStacks& process, const model::ThreadStack& waiter);

// A module that a thread is importing, and the thread.
struct Import {
  const model::ThreadStack* thread = nullptr;
  const model::Frame* module = nullptr;
};
// What the thread waits for, if it waits until another thread has imported a module; empty otherwise.
Import awaited_import(const model::ProcessStacks& process, const model::ThreadStack& waiter);

// A thread that waits for a Python lock which `waiter` holds while it waits for something of its process,
// first of all for the end of that thread; null: none.
const model::ThreadStack* locked_out_by(const model::ProcessStacks& process,
                                        const model::ThreadStack& waiter);
// Nothing but that thread could end the wait of `waiter`.
bool is_deadlock(const model::ProcessStacks& process, const model::ThreadStack& waiter,
                 const model::ThreadStack& locked_out);

// The frames that a signal handler of Python has interrupted; empty outside of one.
std::vector<model::Frame> interrupted_frames(const model::ThreadStack& thread);

// "thread 105 (Thread-1)"
std::string thread_words(const model::ThreadStack& thread);

}  // namespace xpurun::report
