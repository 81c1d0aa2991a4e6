// Completion events: recorded after launched collectives. From them the poller learns the progress of a
// communicator and, if they are timed, the duration of a collective. Calling thread, except
// gone_from_flight(), which the poller calls.
#pragma once

#include "preload/nccl/collective.h"

namespace xpurun::preload {

struct GroupTarget;

// Whether NCCL's profiler interface will time this collective, which makes events unnecessary.
bool nccl_times(const CollectiveTicket& ticket);
// Whether this collective is a sample. The number on the communicator and the step decide, so that all of its
// ranks time the same collectives. Once per collective: sets first_of_step.
bool take_sample(CollectiveTicket& ticket);
// Notes that the communicator has a call in a CUDA graph: from now on NCCL's counts of it disagree (see
// nccl_times()).
void note_capture(uint32_t comm);
// Whether the process has put a collective into a CUDA graph.
bool collectives_in_graphs();

// Before the call: records the start event, if the collective is a sample timed by events.
void record_start(CollectiveTicket& ticket);
// After the launch: records the end event. `single`: nothing else was launched together with the collective.
// `group`: what was launched together; may be null.
void record_end(const CollectiveTicket& ticket, bool single, const GroupTarget* group);

// The event of this communicator was reached, or is given up.
void gone_from_flight(uint32_t comm);

}  // namespace xpurun::preload
