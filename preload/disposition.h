// Keeps our handler exactly where the program believes the default disposition to be, and hides it there. No
// state of our own: the kernel's table says whether ours stands. async-signal-safe after arm().
#pragma once

#include <signal.h>

namespace xpurun::preload {

// Installs the handler for every fatal signal whose disposition is the default, and from now on for every one
// that the program sets back to it.
void arm();

// True for the signals we stand in for, once armed.
bool is_guarded(int signal);

// sigaction(2) as the program is to see it.
int guarded_sigaction(int signal, const struct sigaction* action, struct sigaction* previous);

// True if `handler` is ours, that is, the default in disguise.
bool is_ours(sighandler_t handler);

// Puts the handler where a call that we cannot look into may have set the default.
void reclaim(int signal);

}  // namespace xpurun::preload
