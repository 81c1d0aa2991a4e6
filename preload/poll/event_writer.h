// Writes single events to the segment's ring, and adds their times to the totals of the operations. Poller's
// thread only: the ring has one writer and one reader.
#pragma once

#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

// Drops and counts the event if the ring is full.
void write_event(const wire::Event& event);
void add_to_totals(wire::OpEntry& op, uint64_t duration_ns, uint64_t work);
// In microseconds, saturated; 0 if `to` is earlier.
uint32_t delay_us(uint64_t from_ns, uint64_t to_ns);

// Writes the host times of calls that host_span.h has queued.
void write_host_spans();

}  // namespace xpurun::preload
