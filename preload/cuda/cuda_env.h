// Environment variables of CUDA that limit which times can be measured. Read once; any thread.
#pragma once

namespace xpurun::preload {

// CUDA_DEVICE_MAX_CONNECTIONS=1 (set for tensor parallelism by Megatron): all streams share one hardware
// queue, so a timing event on one stream may run between kernels of other streams. The measured cost of
// events around collectives is then 3.9 % of a step (docs/metrics.md).
bool streams_share_a_queue();

// False under CUDA_LAUNCH_BLOCKING: launches return when the kernel has ended.
bool launches_return_at_once();

}  // namespace xpurun::preload
