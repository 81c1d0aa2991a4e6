// WaitTarget: who can end the wait of a rank's main thread.
#pragma once

namespace xpurun::launcher {

enum class WaitTarget {
  nobody,   // no wait, or a wait for a file, a socket, a single sleep
  peers,    // other ranks or a GPU
  helpers,  // its own threads and processes
  outside,  // an external event: input, a connection, a signal, a file that it polls for
};

}  // namespace xpurun::launcher
