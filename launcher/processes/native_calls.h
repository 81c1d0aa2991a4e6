// NativeCalls: what the main thread of a rank does in a library whose calls the preload library records
// (MPI). Such a library spins while it waits, so CPU time is no progress inside a call.
#pragma once

#include <cstdint>

namespace xpurun::launcher {

struct NativeCalls {
  uint64_t steps = 0;   // calls that were entered or left; polls that found nothing do not count
  uint64_t polls = 0;   // calls that returned at once and had found nothing
  bool inside = false;  // the thread is inside a call
};

}  // namespace xpurun::launcher
