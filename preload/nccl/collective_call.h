// A collective from call to launch: entered in the ledger, timed if it is a sample, launched alone or at the
// end of its group. Calling thread; the hooks (hooks/calls_nccl.h) make the calls.
#pragma once

#include "preload/nccl/collective.h"

namespace xpurun::preload {

// Before and after the call. Inside a group, the end of the group completes the launch.
CollectiveTicket collective_begins(const Collective& call);
void collective_ends(CollectiveTicket& ticket, int result);

// After a call that is_made_of_sends().
void sends_called();

// After ncclGroupStart; before and after ncclGroupEnd.
void group_began();
void group_ends();
void group_ended(int result);

}  // namespace xpurun::preload
