#include "preload/nccl/ledger.h"

#include "preload/core/clock.h"
#include "preload/core/resolve.h"
#include "preload/core/state.h"

#include <initializer_list>
#include <string.h>

namespace xpurun::preload {

namespace {

using wire::CommState;

bool is_state(const wire::CommEntry& comm, CommState state) {
  return comm.state.load(std::memory_order_acquire) == static_cast<uint32_t>(state);
}

bool is_gone(const wire::CommEntry& comm) {
  return is_state(comm, CommState::aborted) || is_state(comm, CommState::destroyed) ||
         is_state(comm, CommState::failed);
}

bool claim(wire::CommEntry& comm) {
  uint32_t state = comm.state.load();
  return (state == static_cast<uint32_t>(CommState::free) || is_gone(comm)) &&
         comm.state.compare_exchange_strong(state, static_cast<uint32_t>(CommState::claimed));
}

// Unused entries first, so that an ended communicator stays readable for as long as possible.
uint32_t find_place(wire::Segment& shared) {
  for (uint32_t i = 0; i < wire::kCommSlots; ++i) {
    if (is_state(shared.comms[i], CommState::free) && claim(shared.comms[i])) {
      return i;
    }
  }
  uint32_t oldest = wire::kNoComm;
  for (uint32_t i = 0; i < wire::kCommSlots; ++i) {
    const wire::CommEntry& comm = shared.comms[i];
    if (is_gone(comm) && (oldest == wire::kNoComm ||
                          comm.last_change_ns.load() < shared.comms[oldest].last_change_ns.load())) {
      oldest = i;
    }
  }
  return oldest != wire::kNoComm && claim(shared.comms[oldest]) ? oldest : wire::kNoComm;
}

using Signatures = wire::Signature[wire::kSignatures];

Signatures& signatures_of(const wire::CommEntry& comm) {
  wire::Segment& shared = *segment();
  return shared.signatures[&comm - shared.comms];
}

void reset(wire::CommEntry& comm) {
  for (std::atomic<uint64_t>* counter :
       {&comm.handle, &comm.called, &comm.launched, &comm.started, &comm.done, &comm.sends, &comm.receives,
        &comm.point_to_point_launched, &comm.point_to_point_done, &comm.last_stream, &comm.parent,
        &comm.marked, &comm.hash}) {
    counter->store(0, std::memory_order_relaxed);
  }
  comm.flags.store(0);
  comm.device.store(-1);
  comm.splits.store(0);
  comm.last_result.store(0);
  for (wire::Signature& signature : signatures_of(comm)) {
    signature.sequence.store(0);
  }
}

void set_name(wire::CommEntry& comm, const char* name) {
  memset(comm.name, 0, sizeof(comm.name));
  if (name != nullptr) {
    strncpy(comm.name, name, sizeof(comm.name) - 1);
  }
}

using Query = int (*)(void*, int*);

int ask(const char* function, void* handle, int otherwise) {
  const auto query = reinterpret_cast<Query>(find_in_library("libnccl.so", function));
  int value = 0;
  return query != nullptr && query(handle, &value) == 0 ? value : otherwise;
}

// Adds a communicator that is first seen in use: created while timing was off, or by a function that is not
// hooked.
uint32_t adopt(void* handle) {
  const auto local = reinterpret_cast<uintptr_t>(handle);
  const uint32_t index = claim_comm(mix(local, now_ns()), -1, 0, nullptr);
  if (index == wire::kNoComm) {
    return index;
  }
  wire::CommEntry& comm = segment()->comms[index];
  comm.flags.store(wire::kCommLocalIdentity | wire::kCommMissedCalls);
  comm.handle.store(local);
  comm.state.store(static_cast<uint32_t>(CommState::live), std::memory_order_release);
  return index;
}

// Asks NCCL for missing facts: ncclCommSplit takes neither rank nor size.
void complete(wire::CommEntry& comm, void* handle) {
  if (comm.nranks.load(std::memory_order_relaxed) > 0 && comm.device.load(std::memory_order_relaxed) >= 0) {
    return;
  }
  // NCCL's own functions may be hooked: their calls from here are not the program's.
  const Inside inside;
  comm.nranks.store(ask("ncclCommCount", handle, 0));
  comm.rank.store(ask("ncclCommUserRank", handle, -1));
  comm.device.store(ask("ncclCommCuDevice", handle, -1));
}

__thread uint32_t t_last_comm = 0;

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) {
  // 2^64 divided by the golden ratio, then the two multipliers of MurmurHash3's finaliser.
  uint64_t h = (a ^ 0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd;
  h = (h ^ h >> 32 ^ b) * 0xc4ceb9fe1a85ec53;
  return h ^ h >> 29;
}

uint64_t hash_bytes(const void* bytes, uint64_t length, uint64_t seed) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  // FNV-1a with its 64-bit offset basis and prime. All ranks must get the same hash of the same unique id, so
  // only the bytes count.
  uint64_t h = seed ^ 0xcbf29ce484222325;
  for (uint64_t i = 0; i < length; ++i) {
    h = (h ^ at[i]) * 0x100000001b3;
  }
  return h;
}

uint32_t claim_comm(uint64_t identity, int rank, int nranks, const char* name) {
  wire::Segment& shared = *segment();
  const uint32_t index = find_place(shared);
  if (index == wire::kNoComm) {
    add(shared.header.health.comms_full, 1);
    return index;
  }
  wire::CommEntry& comm = shared.comms[index];
  reset(comm);
  comm.identity.store(identity);
  comm.rank.store(rank);
  comm.nranks.store(nranks);
  set_name(comm, name);
  comm.last_change_ns.store(now_ns());
  comm.state.store(static_cast<uint32_t>(CommState::initialising), std::memory_order_release);
  return index;
}

uint32_t comm_of(void* handle) {
  // NCCL refuses a null handle. Entries of unfinished communicators have a null handle too.
  if (handle == nullptr) {
    return wire::kNoComm;
  }
  wire::Segment& shared = *segment();
  const auto wanted = reinterpret_cast<uintptr_t>(handle);
  const auto matches = [&](const wire::CommEntry& comm) {
    return comm.handle.load(std::memory_order_relaxed) == wanted &&
           (is_state(comm, CommState::live) || is_state(comm, CommState::finalized) ||
            is_state(comm, CommState::initialising));
  };
  // A thread mostly uses one communicator for many calls, so the last entry is tried before the scan.
  uint32_t found = t_last_comm;
  if (!matches(shared.comms[found])) {
    found = wire::kNoComm;
    for (uint32_t i = 0; i < wire::kCommSlots && found == wire::kNoComm; ++i) {
      found = matches(shared.comms[i]) ? i : found;
    }
    found = found == wire::kNoComm ? adopt(handle) : found;
  }
  if (found != wire::kNoComm) {
    t_last_comm = found;
    complete(shared.comms[found], handle);
  }
  return found;
}

uint64_t collective_called(wire::CommEntry& comm, const wire::OpKey& key, uint64_t now) {
  const uint64_t sequence = comm.called.fetch_add(1) + 1;
  wire::Signature& signature = signatures_of(comm)[sequence % wire::kSignatures];
  // A seqlock for one slot of the ring. The supervisor reads this memory at any moment, also after a kill:
  // sequence 0 marks a slot that is being written, and the final release store publishes its fields.
  signature.sequence.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const uint64_t op = uint64_t{key.api} | uint64_t{key.dtype[0]} << 16 | uint64_t{key.compute} << 24 |
                      static_cast<uint64_t>(static_cast<uint32_t>(key.peer)) << 32;
  // NCCL allows one thread at a time on a communicator.
  const uint64_t hash = mix(comm.hash.load(std::memory_order_relaxed) ^ op, static_cast<uint64_t>(key.k));
  comm.hash.store(hash, std::memory_order_relaxed);
  signature.op.store(op, std::memory_order_relaxed);
  signature.count.store(static_cast<uint64_t>(key.k), std::memory_order_relaxed);
  signature.called_ns.store(now, std::memory_order_relaxed);
  signature.hash.store(hash, std::memory_order_relaxed);
  signature.sequence.store(sequence, std::memory_order_release);
  comm.last_change_ns.store(now, std::memory_order_relaxed);
  return sequence;
}

void point_to_point_called(wire::CommEntry& comm, bool is_send, uint64_t now) {
  add(is_send ? comm.sends : comm.receives, 1);
  comm.last_change_ns.store(now, std::memory_order_relaxed);
}

void collectives_launched(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, void* stream,
                          uint64_t now) {
  add(comm.launched, collectives);
  if (point_to_point != 0) {
    add(comm.point_to_point_launched, point_to_point);
  }
  comm.last_stream.store(reinterpret_cast<uintptr_t>(stream), std::memory_order_relaxed);
  comm.last_change_ns.store(now, std::memory_order_relaxed);
}

void collectives_done(wire::CommEntry& comm, uint64_t collectives, uint64_t point_to_point, uint64_t now) {
  // Collectives of one communicator on two streams may finish in another order; a count never decreases.
  const auto raise = [](std::atomic<uint64_t>& counter, uint64_t to) {
    if (counter.load() < to) {
      counter.store(to);
    }
  };
  raise(comm.started, collectives);
  raise(comm.done, collectives);
  raise(comm.point_to_point_done, point_to_point);
  comm.last_change_ns.store(now);
}

void mark_calls_missed(wire::Segment& segment) {
  for (wire::CommEntry& comm : segment.comms) {
    if (!is_state(comm, CommState::free)) {
      comm.flags.fetch_or(wire::kCommMissedCalls);
    }
  }
}

}  // namespace xpurun::preload
