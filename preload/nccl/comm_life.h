// The life of a communicator, from the call that makes it to its destruction, as the ledger has it. The
// calling thread; the hooks (hooks/calls_nccl.h) say when.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/vendor.h"

#include <stdint.h>

namespace xpurun::preload {

// Before the call that makes a communicator. `identity` is the same on all of its ranks.
void comm_began(uint64_t identity, int rank, int nranks, const NcclConfig* config, uint64_t parent);
// After the call; `place` is where NCCL writes the handle, at the end of the group if one is open.
void comm_made(int result, void** place);
// After ncclCommInitAll.
void comms_made(int result, void** comms, int count);
// The group has ended in which the communicator was made.
void comm_finished(uint32_t entry, int result, void** place);

void comm_changed(void* comm, wire::CommState state);
void comm_failed(void* comm, int result);

// An identity from the unique ids that all ranks pass to NCCL.
uint64_t identity_of(const NcclUniqueId* ids, int count);
// An identity for a part of `comm`: every rank of the part computes the same one.
uint64_t split_identity(void* comm, int color);

}  // namespace xpurun::preload
