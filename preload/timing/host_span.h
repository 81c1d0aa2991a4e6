// What a hooked call takes on the host, from the program's call to our return, while a trace asks for it.
// Kept apart from what is timed on the GPU: a queue of its own, entries of their own that count no call. Any
// thread.
#pragma once

#include "preload/timing/pending.h"
#include "preload/timing/runtime.h"

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

// Of an item: `call_ns` and `launched_ns` are the span, `op` its entry, `sequence` the thread. The poller
// takes them out.
PendingQueue& host_spans();

}  // namespace xpurun::preload
