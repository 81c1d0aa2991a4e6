// The ledger of collectives: for each communicator of this process, which calls the program has made and how
// far the GPU has come with them. It lies in shared memory, so that a hang can be read from outside, and
// after the process has died. The threads that call NCCL write it, each counter atomically; the poller writes
// `done`.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

// The hashes that make an identity which all ranks of a communicator compute alike.
uint64_t hash_bytes(const void* bytes, uint64_t length, uint64_t seed);
uint64_t mix(uint64_t a, uint64_t b);

// A new entry in state initialising; wire::kNoComm if the table is full. Entries of destroyed, aborted and
// failed communicators are used again, the oldest first.
uint32_t claim_comm(uint64_t identity, int rank, int nranks, const char* name);

// The entry of a communicator that NCCL has made. A communicator whose making was not seen gets an entry now.
uint32_t comm_of(void* handle);

// Before a collective is called. Returns its number on the communicator, from 1.
uint64_t collective_called(wire::CommEntry& comm, const wire::OpKey& key, uint64_t now);
void point_to_point_called(wire::CommEntry& comm, bool is_send, uint64_t now);

// After the launch of this many more calls.
void collectives_launched(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, void* stream,
                          uint64_t now);
// All calls up to these numbers have finished on the GPU. Called by the poller.
void collectives_done(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, uint64_t now);

// Timing goes off: calls will be missed, so the counters of living communicators can no longer be compared
// between ranks.
void mark_calls_missed(wire::Segment& segment);

}  // namespace xpurun::preload
