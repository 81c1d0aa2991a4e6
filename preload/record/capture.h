// Stream capture: while a stream is captured into a CUDA graph, an event record or query on it is illegal or
// becomes part of the graph, and called work does not run. Any thread.
#pragma once

#include "preload/core/state.h"

namespace xpurun::preload {

// Around cudaStreamBeginCapture and cudaStreamEndCapture. The count is per process: a capture in global mode
// affects all its threads.
void capture_began();
void capture_ended();
inline bool a_capture_goes_on() {
  return g_state.captures.load(std::memory_order_relaxed) > 0;
}

// True if the stream is being captured. Asks CUDA only while a capture is known to be in progress, so that a
// call outside of captures costs one load.
bool goes_into_a_graph(void* stream);

}  // namespace xpurun::preload
