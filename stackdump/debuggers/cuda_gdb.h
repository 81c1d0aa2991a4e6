// Running GPU kernels of a process from cuda-gdb. Takes seconds, in which the process and its GPUs stand
// still: only after everything else and only on request.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/resolve_settings.h"

namespace xpurun::stackdump {

// The rows of "info cuda kernels", whatever columns this version prints. Never fails.
std::vector<model::GpuKernel> parse_cuda_kernels(std::string_view text);

// The thread that waits for the GPU, the main thread if that does; -1 if none does.
int gpu_waiter(const model::ProcessStacks& stacks);

// Does what `settings.gpu` asks for: asks cuda-gdb, records the kernels and puts them on top of the waiting
// thread. What went wrong becomes a note. False if cuda-gdb was not asked.
bool add_gpu_kernels(model::ProcessStacks& stacks, const DebuggerSettings& settings);

}  // namespace xpurun::stackdump
