// The stack of a thread as frames of a sample. PyTorch's operations have the names of its own profiler. Pure.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/resolve/python_sampler.h"

#include <vector>

namespace xpurun::launcher {

// Outermost first. Native frames are "aten::mm" for an operation of ATen, "autograd: MmBackward0" for a node
// of the backward pass, else the function with its library: "sgemm_ (libblas.so.3)". The interpreter's own
// frames are left out, and PyTorch's own between two operations.
std::vector<stackdump::SampledFrame> native_path(const model::ThreadStack& thread);

// The thread runs Python or operations of PyTorch.
bool runs_program(const std::vector<stackdump::SampledFrame>& path);

}  // namespace xpurun::launcher
