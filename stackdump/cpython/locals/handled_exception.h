// The exception that a thread is handling, as in sys.exc_info(). If a `finally`, an `except` or the end of a
// `with` hangs, the exception never leaves the function, and this is its only trace.
#pragma once

#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

inline constexpr size_t kMaxTraceback = 64;  // innermost entries to keep

// Sets the handled exception of each thread of the snapshot, and adds the code objects of its traceback.
// False if the deadline passed first.
// The same of one thread, whose state is at `thread`, and without the code objects.
HandledException handled_by(RemoteMemory& memory, const Offsets& offsets, Addr thread);
void add_traceback_code(RemoteMemory& memory, const Offsets& offsets, const HandledException& handled,
                        PySnapshot& snapshot);
// The exception that a variable of one of the thread's functions refers to, with a traceback: the function
// has caught it. Of the innermost such function; the type is empty if there is none.
HandledException kept_by(RemoteMemory& memory, const Offsets& offsets, const PyThread& thread);
bool read_handled(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot, base::MonoNs deadline);

}  // namespace xpurun::stackdump
