// Local variables of Python frames, as short texts. Only on request: values may be secrets. Those of
// variables with secret-looking names are not even read; of containers and other objects only type and size
// are told.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

inline constexpr size_t kMaxLocalFrames = 64;  // of one thread, innermost first
inline constexpr size_t kMaxLocals = 64;       // of one frame

// One value as text, at most some hundred bytes. "?" if it makes no sense.
std::string short_repr(RemoteMemory& memory, Addr object, const Offsets& offsets);

// The variables of one frame that have a value.
std::vector<model::Local> read_frame_locals(RemoteMemory& memory, const RawFrame& frame,
                                            const Offsets& offsets);

// Fills snapshot.locals; false if the deadline came first.
bool read_locals(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot, base::MonoNs deadline);

}  // namespace xpurun::stackdump
