#include "preload/poll/event_writer.h"

#include "preload/core/state.h"
#include "preload/record/host_span.h"

namespace xpurun::preload {

void write_event(const wire::Event& event) {
  wire::SegmentHeader& header = segment()->header;
  const uint64_t head = header.ring_head.load(std::memory_order_relaxed);
  // One producer (this thread) and one consumer (the supervisor). A full ring drops the newest event instead
  // of waiting: the supervisor may be stopped or dead.
  if (head - header.ring_tail.load(std::memory_order_acquire) >= wire::kRingSlots) {
    add(header.health.ring_dropped, 1);
    return;
  }
  segment()->ring[head % wire::kRingSlots] = event;
  // Published last, so the supervisor never sees a slot before its content.
  header.ring_head.store(head + 1, std::memory_order_release);
}

void add_to_totals(wire::OpEntry& op, uint64_t duration_ns, uint64_t work) {
  add(op.timed, 1);
  add(op.timed_ns, duration_ns);
  add(op.timed_work, work);
}

uint32_t delay_us(uint64_t from_ns, uint64_t to_ns) {
  const uint64_t us = to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0;
  return us > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(us);
}

void write_host_spans() {
  Pending span{};
  while (host_spans().pop(&span)) {
    wire::OpEntry& op = segment()->ops[span.op];
    wire::Event event{};
    event.begin_ns = span.call_ns;
    event.duration_ns = span.launched_ns - span.call_ns;
    event.op = span.op;
    event.sequence = static_cast<uint32_t>(op.timed.load(std::memory_order_relaxed));
    event.delay_us = span.sequence;  // the thread, see host_span.h
    event.source = static_cast<uint8_t>(wire::Source::host_call);
    event.flags = wire::kEventHostBegin;
    add(op.timed, 1);
    add(op.timed_ns, event.duration_ns);
    write_event(event);
  }
}

}  // namespace xpurun::preload
