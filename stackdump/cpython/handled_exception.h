// The exception that a thread is handling, as sys.exc_info() gives it: where a `finally`, an `except` or the
// end of a `with` hangs, the exception never gets out of the function, and nothing else tells of it.
#pragma once

#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

inline constexpr size_t kMaxTraceback = 64;  // innermost entries that are kept

// Fills in what each thread of the snapshot handles, and the code objects of its traceback. False if the
// deadline passed first.
bool read_handled(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot, base::MonoNs deadline);

}  // namespace xpurun::stackdump
