// Decides, from the constructor and without starting anything, whether a process is one whose death the
// supervisor wants to hear of. Everything else that runs in a job (shells, coreutils, compilers) is left
// alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

enum class ProcessKind : uint8_t {
  other,
  python,  // an interpreter is linked in; whether it is a rank is the supervisor's question
  rank,    // not Python, but its environment says that it is a rank of a distributed job
};

ProcessKind classify_this_process();

}  // namespace xpurun::preload
