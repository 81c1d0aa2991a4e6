// The ledger of collectives: what each communicator of this process has been asked to do and how far that has
// come, in shared memory, so that a hang can be read from outside and after death. Written by the threads
// that call NCCL, each counter atomically; `done` by the poller.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

// Two halves of what makes a communicator the same on all its ranks.
uint64_t hash_bytes(const void* bytes, uint64_t length, uint64_t seed);
uint64_t mix(uint64_t a, uint64_t b);

// A new entry in state initialising; wire::kNoComm if the table is full. Entries of communicators that are
// gone are used again, the oldest first.
uint32_t claim_comm(uint64_t identity, int rank, int nranks, const char* name);

// The entry of a communicator that NCCL has made; one that appeared behind our back gets an entry now.
uint32_t comm_of(void* handle);

// A collective is about to be called. Its number on the communicator, from 1.
uint64_t collective_called(wire::CommEntry& comm, const wire::OpKey& key, uint64_t now);
void point_to_point_called(wire::CommEntry& comm, bool is_send, uint64_t now);

// The GPU has been given so many more.
void collectives_launched(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, void* stream,
                          uint64_t now);
// By now so many in all have finished; called by the poller.
void collectives_done(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, uint64_t now);

// Timing goes off: from here on the counters of living communicators cannot be compared between ranks.
void mark_calls_missed(wire::Segment& segment);

}  // namespace xpurun::preload
