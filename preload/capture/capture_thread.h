// Captures of the GPU's activity on request of the supervisor: a thread loads libxpurun_cupti.so, which
// records until the time is over. Nothing of this exists before the first request.
#pragma once

#include <stdint.h>
#include <sys/un.h>

namespace xpurun::preload {

// Call once, before any other function here.
void prepare_captures(const sockaddr_un& socket);

// `wanted`: ToRank::capture. Starts the thread when the number has changed and no capture is under way. Call
// from the poller's thread only, whose own calls are left out of the capture.
void follow_capture(uint32_t wanted);

// Call from an exit handler, before CUDA is unloaded: ends the capture. Waits at most 20 s.
void end_capture();

}  // namespace xpurun::preload
