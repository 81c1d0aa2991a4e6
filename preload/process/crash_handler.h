// The handler of fatal signals with default disposition. It notifies the supervisor, waits a bounded time
// while stacks are taken, then makes the process die of the same signal, with the same siginfo and, in a core
// file, the same registers as without the handler. Everything is async-signal-safe.
#pragma once

#include "common/wire/notice.h"
#include "preload/process/process_kind.h"
#include "preload/process/run_env.h"

#include <signal.h>

namespace xpurun::preload {

// Call once from the constructor, before the handler is installed.
void prepare_crash_handler(const RunEnv& run, ProcessKind kind);

// Gives the main thread an alternate signal stack if it has none: after a stack overflow the handler can run
// only there. sigaltstack(2) is per thread; other threads stay unchanged.
void provide_alternate_stack();

// An SA_SIGINFO handler.
void on_fatal_signal(int signal, siginfo_t* info, void* context);

// A notice with the fields that all notices of this process share. async-signal-safe.
wire::Notice make_notice(wire::NoticeKind kind);

}  // namespace xpurun::preload
