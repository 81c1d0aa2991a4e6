// The life of a communicator in the ledger, from the call that creates it to its destruction. Calling thread;
// the hooks (hooks/calls_nccl.h) make the calls.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/vendor.h"

#include <stdint.h>

namespace xpurun::preload {

// Before the call that creates a communicator. `identity` is equal on all of its ranks.
void comm_began(uint64_t identity, int rank, int nranks, const NcclConfig* config, uint64_t parent);
// After the call. `place` is where NCCL writes the handle; if a group is open, NCCL writes at the end of the
// group.
void comm_made(int result, void** place);
// After ncclCommInitAll.
void comms_made(int result, void** comms, int count);
// The group in which the communicator was created has ended.
void comm_finished(uint32_t entry, int result, void** place);

void comm_changed(void* comm, wire::CommState state);
void comm_failed(void* comm, int result);

// An identity from the unique ids that all ranks pass to NCCL.
uint64_t identity_of(const NcclUniqueId* ids, int count);
// An identity for a part of `comm`, equal on every rank of the part.
uint64_t split_identity(void* comm, int color);

}  // namespace xpurun::preload
