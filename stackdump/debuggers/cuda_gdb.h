// The running GPU kernels of a process, from cuda-gdb. Takes seconds, during which the process and its GPUs
// are stopped: only after everything else and only on request.
#pragma once

#include "common/model/stack_snapshot.h"
#include "stackdump/resolve/resolve_settings.h"

namespace xpurun::stackdump {

// The rows of "info cuda kernels", with any set of columns (versions differ). Never fails.
std::vector<model::GpuKernel> parse_cuda_kernels(std::string_view text);

// The thread that waits for the GPU, preferably the main thread; -1 if no thread waits.
int gpu_waiter(const model::ProcessStacks& stacks);

// Carries out `settings.gpu`: runs cuda-gdb, records the kernels and adds them as the innermost frames of the
// waiting thread. A failure becomes a note. False if cuda-gdb was not run.
bool add_gpu_kernels(model::ProcessStacks& stacks, const DebuggerSettings& settings);

}  // namespace xpurun::stackdump
