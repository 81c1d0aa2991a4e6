#include "preload/cuda/cuda_env.h"

#include <stdlib.h>
#include <string.h>

namespace xpurun::preload {

bool streams_share_a_queue() {
  static const bool shared = [] {
    const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return connections != nullptr && strcmp(connections, "1") == 0;
  }();
  return shared;
}

bool launches_return_at_once() {
  const char* blocking = getenv("CUDA_LAUNCH_BLOCKING");
  return blocking == nullptr || strcmp(blocking, "0") == 0;
}

}  // namespace xpurun::preload
