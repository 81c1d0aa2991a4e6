// Processes that run xpurun's own code after fork(2), without exec. start_program() (program.h) starts
// others.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <functional>
#include <signal.h>

namespace xpurun::base {

enum class ChildLife {
  ends_with_parent,  // killed by SIGKILL when the thread that forked it ends
  outlives_parent,
};

// The exit status of the child is the result of `body`, which runs in a copy of the caller's memory.
// Thread rule: single-threaded callers only, unless `body` makes async-signal-safe calls only.
Result<Pid> fork_child(ChildLife life, const std::function<int()>& body);

// For a child directly after fork(2): this process gets `signal` when `parent` ends. PR_SET_PDEATHSIG has no
// effect if the parent has ended before the call; then this process exits with `status`. Async-signal-safe.
void end_with_parent(Pid parent, int signal = SIGKILL, int status = 125);

}  // namespace xpurun::base
