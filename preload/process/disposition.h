// Keeps the crash handler installed exactly where the program believes the default disposition to be, and
// hides it. There is no second table to keep consistent: the kernel's own table shows whether the handler is
// installed. async-signal-safe after arm().
#pragma once

#include <signal.h>

namespace xpurun::preload {

// Installs the handler for every fatal signal with default disposition, and from now on for every signal that
// the program resets to the default.
void arm();

// True for the fatal signals, once armed.
bool is_guarded(int signal);

// sigaction(2) as the program should see it: the handler shows as SIG_DFL.
int guarded_sigaction(int signal, const struct sigaction* action, struct sigaction* previous);

// True if `handler` is the crash handler, which the program sees as SIG_DFL.
bool is_ours(sighandler_t handler);

// Installs the handler again after a libc call that may have set the default itself.
void reclaim(int signal);

}  // namespace xpurun::preload
