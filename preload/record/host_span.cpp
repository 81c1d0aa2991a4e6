#include "preload/record/host_span.h"

#include "preload/core/clock.h"
#include "preload/record/op_table.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constinit PendingQueue g_spans;
// Per function: index of its operation + 1; 0: no entry yet.
constinit std::atomic<uint32_t> g_entries[wire::kApiCount] = {};
__thread uint32_t t_thread_id = 0;

uint32_t entry_of(wire::Api api) {
  std::atomic<uint32_t>& known = g_entries[static_cast<size_t>(api)];
  if (const uint32_t entry = known.load(std::memory_order_relaxed); entry != 0) {
    return entry - 1;
  }
  wire::OpKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::OpClass::host);
  key.comm = wire::kNoComm;
  key.peer = -1;
  const uint32_t entry = find_op(*segment(), key);
  known.store(entry + 1, std::memory_order_relaxed);
  return entry;
}

}  // namespace

PendingQueue& host_spans() {
  return g_spans;
}

uint64_t HostSpan::begin() {
  return now_ns();
}

void HostSpan::end() const {
  if (!is_timing_on()) {
    return;
  }
  if (t_thread_id == 0) {
    t_thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
  }
  Pending span{};
  span.call_ns = begin_ns_;
  span.launched_ns = now_ns();
  span.op = entry_of(api_);
  span.sequence = t_thread_id;
  if (!g_spans.push(span)) {
    add(segment()->header.health.queue_full, 1);
  }
}

}  // namespace xpurun::preload
