// Work in flight on the GPU: takes the work from the calling threads, asks CUDA which events have been
// reached, stream by stream, and writes the results to the segment. Poller's thread only; never blocks.
#pragma once

#include "preload/poll/device_times.h"
#include "preload/record/stream_queues.h"

#include <stdint.h>

namespace xpurun::preload {

class WorkInFlight {
 public:
  // The caller owns the queues: they are large and all zero, and inside an object with other initial values
  // they would take space in the library's file.
  constexpr WorkInFlight(DeviceTimes& times, StreamQueues& queues) : times_(times), queues_(queues) {}

  // False after a CUDA error that makes its events useless.
  bool poll();
  // Takes the collectives that NCCL has timed.
  void take_profiled();

 private:
  bool poll_stream(uint32_t number);
  void completed(const Pending& item, uint32_t number, StreamQueues::Stream& stream, uint64_t now);

  DeviceTimes& times_;
  StreamQueues& queues_;
};

}  // namespace xpurun::preload
