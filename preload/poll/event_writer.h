// Writes single events to the ring of the segment, and their times to the totals of the operations. The
// poller's thread alone: the ring has one writer and one reader.
#pragma once

#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

// Drops the event, and counts that, if the supervisor has not made room.
void write_event(const wire::Event& event);
void add_to_totals(wire::OpEntry& op, uint64_t duration_ns, uint64_t work);
// Microseconds, saturated; 0 if `to` is earlier.
uint32_t delay_us(uint64_t from_ns, uint64_t to_ns);

// Times of calls on the host, as host_span.h has queued them.
void write_host_spans();

}  // namespace xpurun::preload
