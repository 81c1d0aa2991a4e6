// For a thread that holds a process stopped: it must neither queue for the processor nor oversleep.
#pragma once

namespace xpurun::stackdump {

// Real-time scheduling and exact timers for the calling thread, where they are allowed.
void become_urgent();

}  // namespace xpurun::stackdump
