#include "preload/cuda/event_overhead.h"

#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"

#include <stdlib.h>

namespace xpurun::preload {

namespace {
// "0": durations stay as the events give them, to measure the correction itself. The prefix XPURUN_RUN_ keeps
// xpurun from warning about an unknown option.
constexpr char kEventCorrectionEnv[] = "XPURUN_RUN_EVENT_CORRECTION";
}  // namespace

bool events_are_corrected() {
  const char* value = getenv(kEventCorrectionEnv);
  return value == nullptr || value[0] != '0' || value[1] != '\0';
}

void EventOverhead::begin() {
  const CudaApi& cuda = cuda_api();
  void* stream = nullptr;
  bool good = cuda.stream_create(&stream, kStreamNonBlocking) == 0;
  // All events are created before the first is recorded: a creation between two records would lengthen the
  // pair.
  for (void*& event : event_) {
    good = good && cuda.event_create(&event, 0) == 0;
  }
  for (void* event : event_) {
    good = good && cuda.event_record(event, stream) == 0;
  }
  if (!good) {
    forget_cuda_error();
  }
  waiting_ = good;
}

bool EventOverhead::finish() {
  if (!waiting_) {
    return false;
  }
  const int state = cuda_api().event_query(event_[2 * kPairs - 1]);
  if (state == kCudaErrorNotReady) {
    return false;
  }
  waiting_ = false;
  float least = 0;
  bool good = state == 0;
  // Interruptions only lengthen a pair, so the shortest pair is the most accurate.
  for (int i = 0; good && i < kPairs; ++i) {
    float ms = 0;
    good = cuda_api().event_elapsed(&ms, event_[2 * i], event_[2 * i + 1]) == 0;
    least = i == 0 || ms < least ? ms : least;
  }
  if (!good) {
    forget_cuda_error();
    return false;
  }
  ns_ = least > 0 ? static_cast<uint64_t>(static_cast<double>(least) * 1e6) : 0;
  return true;
}

}  // namespace xpurun::preload
