// Local variables of Python frames, as short texts. Only on request, because values may be secrets: variables
// with secret-looking names are never read. Containers and other objects appear as type and size only; their
// elements are in the form for py-spy's readers (pyspy_repr.h).
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/cpython/frames.h"

namespace xpurun::stackdump {

inline constexpr size_t kMaxLocalFrames = 64;  // of one thread, innermost first
inline constexpr size_t kMaxLocals = 64;       // of one frame

// One value as text, at most a few hundred bytes. "?" for an implausible value.
std::string short_repr(RemoteMemory& memory, Addr object, const Offsets& offsets);

// The bound variables of one frame.
std::vector<model::Local> read_frame_locals(RemoteMemory& memory, const RawFrame& frame,
                                            const Offsets& offsets);

// The objects that the variables of a frame refer to, through their cells too.
std::vector<Addr> bound_objects(RemoteMemory& memory, const RawFrame& frame, const Offsets& offsets);

// Fills snapshot.locals; false if the deadline passed first.
bool read_locals(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot, base::MonoNs deadline);

}  // namespace xpurun::stackdump
