// A memory snapshot of PyTorch: the pickle of torch.cuda.memory._dump_snapshot(), and the list of
// torch.cuda.memory_snapshot() before torch 2.1. Read by the restricted unpickler; nothing is executed.
#pragma once

#include "common/model/memory/memory_look.h"

#include <string>

namespace xpurun::report {

// Blocks by the stack of their allocation, if the history was recorded. The category of a block is not in the
// file: parameters, gradients and the state of the optimizer are told from the functions of the stack, the
// rest counts as activations or tensors. Errors name the cause and, for a pickle, the byte offset.
base::Result<model::MemoryLook> read_torch_snapshot(const std::string& content);

}  // namespace xpurun::report
