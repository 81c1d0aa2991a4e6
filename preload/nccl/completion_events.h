// Completion events: events behind launched collectives, by which the poller learns how far a communicator
// has come and, if they are timed, how long a collective took. The calling thread; gone_from_flight() the
// poller.
#pragma once

#include "preload/nccl/collective.h"

namespace xpurun::preload {

// Whether NCCL's profiler interface will time this collective, so that events are not needed.
bool nccl_times(const CollectiveTicket& ticket);
// Whether this collective is a sample. Decided by the number on the communicator, so that all of its ranks
// time the same collectives.
bool is_sample(const CollectiveTicket& ticket);
// The communicator has a call in a CUDA graph: from now on NCCL's counts of it disagree (see nccl_times()).
void note_capture(uint32_t comm);

// Before the call: the start event, if the collective is a sample timed by events.
void record_start(CollectiveTicket& ticket);
// After the launch: the end event. `single`: nothing else was launched with the collective.
void record_end(const CollectiveTicket& ticket, bool single);

// The event of this communicator has been reached, or is not waited for any more.
void gone_from_flight(uint32_t comm);

}  // namespace xpurun::preload
