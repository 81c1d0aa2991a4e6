// The work that the GPU has not finished yet: takes it from the calling threads, asks CUDA which events have
// been reached, stream by stream, and writes what is learned to the segment. The poller's thread alone; never
// blocks.
#pragma once

#include "preload/poll/device_times.h"
#include "preload/record/stream_queues.h"

#include <stdint.h>

namespace xpurun::preload {

class WorkInFlight {
 public:
  // The queues are the caller's: they are large and all zero, so they must not become part of an object with
  // other initial values, which would put them into the library's file.
  constexpr WorkInFlight(DeviceTimes& times, StreamQueues& queues) : times_(times), queues_(queues) {}

  // False once CUDA has given an error after which its events are of no more use.
  bool poll();
  // Collectives whose times NCCL has given.
  void take_profiled();

 private:
  bool poll_stream(uint32_t number);
  void completed(const Pending& item, uint32_t number, StreamQueues::Stream& stream, uint64_t now);

  DeviceTimes& times_;
  StreamQueues& queues_;
};

}  // namespace xpurun::preload
