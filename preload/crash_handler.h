// The handler that stands where a fatal signal's disposition would be the default. It tells the supervisor,
// lets it take stacks for a bounded time, then makes the process die of the same signal, with the same
// siginfo and the same registers in a core file, as it would have without us. Everything is
// async-signal-safe.
#pragma once

#include "common/wire/notice.h"
#include "preload/process_kind.h"
#include "preload/run_env.h"

#include <signal.h>

namespace xpurun::preload {

// Called once from the constructor, before the handler is installed anywhere.
void prepare_crash_handler(const RunEnv& run, ProcessKind kind);

// Gives the main thread a stack for the handler to run on if it has none of its own: a stack overflow leaves
// no other. Other threads keep what they have.
void provide_alternate_stack();

// An SA_SIGINFO handler.
void on_fatal_signal(int signal, siginfo_t* info, void* context);

// Fields that every notice from this process has. async-signal-safe.
wire::Notice make_notice(wire::NoticeKind kind);

}  // namespace xpurun::preload
