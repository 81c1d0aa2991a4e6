// The exception that a thread is handling, as sys.exc_info() gives it: where a `finally`, an `except` or the
// end of a `with` hangs, the exception never gets out of the function, and nothing else tells of it.
#pragma once

#include "stackdump/cpython/frames.h"

#include <span>

namespace xpurun::stackdump {

inline constexpr size_t kMaxTraceback = 64;  // innermost entries that are kept

// `raw` is the content of the thread state. An empty type: none, or nothing plausible.
HandledException read_handled(RemoteMemory& memory, const Offsets& offsets, std::span<const std::byte> raw);

}  // namespace xpurun::stackdump
