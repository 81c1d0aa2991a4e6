#include "preload/record/capture.h"

#include "preload/cuda/cuda_api.h"

namespace xpurun::preload {

void capture_began() {
  g_state.captures.fetch_add(1);
}

// Not below zero: if a capture began while timing was off, only its end is seen.
void capture_ended() {
  int32_t now = g_state.captures.load();
  while (now > 0 && !g_state.captures.compare_exchange_weak(now, now - 1)) {
  }
}

bool goes_into_a_graph(void* stream) {
  return a_capture_goes_on() && load_cuda_api() && is_capturing(stream);
}

}  // namespace xpurun::preload
