// For a thread that holds a process stopped: it must neither queue for a processor nor oversleep.
#pragma once

namespace xpurun::stackdump {

// Gives the calling thread real-time scheduling and exact timers, where permitted.
void become_urgent();

}  // namespace xpurun::stackdump
