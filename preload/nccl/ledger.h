// The ledger of collectives: per communicator of this process, the calls that the program has made and the
// GPU's progress with them. It is in shared memory, so that a hang can be examined from outside, even after
// the process has died. The threads that call NCCL write it, each counter atomically; the poller writes
// `done`.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

// Hashes for an identity that all ranks of a communicator compute alike.
uint64_t hash_bytes(const void* bytes, uint64_t length, uint64_t seed);
uint64_t mix(uint64_t a, uint64_t b);

// A new entry in state initialising; wire::kNoComm if the table is full. Entries of destroyed, aborted and
// failed communicators are reused, oldest first.
uint32_t claim_comm(uint64_t identity, int rank, int nranks, const char* name);

// The entry of an existing communicator. If its creation was not seen, it gets an entry now.
uint32_t comm_of(void* handle);

// Before a collective is called. Returns its sequence number on the communicator, from 1.
uint64_t collective_called(wire::CommEntry& comm, const wire::OpKey& key, uint64_t now);
void point_to_point_called(wire::CommEntry& comm, bool is_send, uint64_t now);

// After the launch of this many further calls.
void collectives_launched(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, void* stream,
                          uint64_t now);
// All calls up to these numbers have finished on the GPU. Poller only.
void collectives_done(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, uint64_t now);

// Timing is switched off: calls will be missed, so the counters of existing communicators are no longer
// comparable between ranks.
void mark_calls_missed(wire::Segment& segment);

}  // namespace xpurun::preload
