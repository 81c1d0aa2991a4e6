// Calls of PyTorch's modules by their class.
#pragma once

#include "stackdump/cpython/frames.h"

#include <string>

namespace xpurun::stackdump {

// "nn.Module: Linear" for the frame of a call of a module; empty for another frame, or if the class is not
// known.
std::string module_call(RemoteMemory& memory, const Offsets& offsets, const RawFrame& frame,
                        const CodeObject& code);

// Of all frames of all threads: sets `module_calls`.
void read_module_calls(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot);

}  // namespace xpurun::stackdump
