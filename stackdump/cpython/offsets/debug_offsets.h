// CPython 3.13 and later describe their own layout in a table at the start of _PyRuntime (_Py_DebugOffsets).
// The layout of the table itself changes with each minor version, hence one list of positions per version.
#pragma once

#include "common/base/result.h"
#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/remote_memory.h"

#include <span>

namespace xpurun::stackdump {

struct SelfDescription {
  uint32_t version = 0;  // PY_VERSION_HEX
  bool free_threaded = false;
};

// Nothing if the table does not begin with the cookie "xdebugpy".
std::optional<SelfDescription> read_self_description(RemoteMemory& memory, Addr runtime);

// Fails for versions with an unknown table layout and for implausible tables.
base::Result<Offsets> read_debug_offsets(RemoteMemory& memory, Addr runtime, const SelfDescription& about);

}  // namespace xpurun::stackdump
