// Keeps a debugger from sending SIGINT. gdb hands a request to quit on to the target as Ctrl-C, with
// kill(pid, SIGINT), while gdb waits for the target. If gdb then ends before it has taken that signal back,
// the target dies of SIGINT.
#pragma once

namespace xpurun::stackdump {

// From now on, kill(2) with SIGINT does nothing and returns 0, in this process and in those that it starts,
// also after exec(2). Sets no_new_privs: setuid bits and file capabilities no longer have an effect. False if
// the kernel refuses the filter. Async-signal-safe.
bool drop_interrupts();

}  // namespace xpurun::stackdump
