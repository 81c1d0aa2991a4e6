// What a still rank waits for outside of its own process, and who should give it: input, the other end of a
// FIFO, or processes that have ended. Pure functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// ": no process has opened the other end of this FIFO", of the rank or of the process that it waits for; else
// empty.
std::string fifo_clause(const Scene& scene, const RankView& v);

// "; both processes that it had started have ended: pid 77 exited with status 0, pid 78 was killed by
// SIGKILL". Of a rank that takes from a queue or pipe of multiprocessing, when no process is left that could
// put something there. Empty otherwise.
std::string ended_workers_clause(const Scene& scene, const RankView& v);

// "; its 2 processes of the pool wait for a task: none has the one that is missing". Of a rank that waits for
// a pool of multiprocessing; else empty.
std::string lost_task_clause(const Scene& scene, const RankView& v);

// What to do about these, and about a prompt. Empty: none of these.
model::NextStep own_wait_advice(const Scene& scene, const RankView& v);

// For a process that its control group keeps frozen.
model::NextStep thaw_advice(const model::ThreadStack& thread);

}  // namespace xpurun::report
