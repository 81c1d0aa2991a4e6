// The host time of a hooked call, from the program's call to its return, while a trace requests host times.
// Separate from GPU times: has its own queue, and its own operations, which count no calls. Any thread.
#pragma once

#include "preload/core/state.h"
#include "preload/record/pending.h"

namespace xpurun::preload {

class HostSpan {
 public:
  explicit HostSpan(wire::Api api) : api_(api), begin_ns_(are_host_events_wanted() ? begin() : 0) {}
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;
  ~HostSpan() {
    if (begin_ns_ != 0) {
      end();
    }
  }

 private:
  static uint64_t begin();
  void end() const;

  wire::Api api_;
  uint64_t begin_ns_;
};

// In an item, `call_ns` and `launched_ns` are start and end, `op` is the operation, `sequence` the thread id.
// The poller removes the items.
PendingQueue& host_spans();

}  // namespace xpurun::preload
