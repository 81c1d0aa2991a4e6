// A collective or point-to-point call of NCCL as data: its arguments, and what is known about it from the
// call until it is launched.
#pragma once

#include "common/wire/segment.h"
#include "preload/core/vendor.h"
#include "preload/record/timed_call.h"

#include <stdint.h>

namespace xpurun::preload {

struct Collective {
  wire::Api api{};
  uint64_t count = 0;
  int type = 0;
  int op = 0;
  int peer = -1;  // root or peer
  void* comm = nullptr;
  void* stream = nullptr;
  const void* send = nullptr;
  const void* receive = nullptr;
};

// What collective_begins() has found out, for collective_ends(). Zeroed memory is not a valid ticket: `event`
// and `record` must be set. Plain data, kept in a thread-local group.
struct CollectiveTicket {
  CallInfo info;
  uint32_t comm;  // wire::kNoComm: not in the ledger
  uint32_t op;
  uint64_t sequence;  // on the communicator; 0: point-to-point
  uint64_t call_ns;
  uint64_t begin_cost_ns;   // our time before the call, if measured
  uint64_t record_ns;       // of that for the start event
  uint32_t event;           // whose start is recorded, or kNoEvent
  uint32_t record;          // that NCCL is asked about, or kNoRecord
  int32_t device;           // of the event
  bool sample;              // its turn to be timed
  bool asked;               // stop_asking_nccl() is due
  wire::CollectiveHow how;  // as NCCL reported it during the call
};

constexpr bool is_point_to_point(wire::Api api) {
  return api == wire::Api::ncclSend || api == wire::Api::ncclRecv;
}

// Calls that NCCL carries out as sends and receives. NCCL's profiler interface reports these operations one
// by one and never the call as a whole.
constexpr bool is_made_of_sends(wire::Api api) {
  return is_point_to_point(api) || api == wire::Api::ncclAlltoAll || api == wire::Api::ncclGather ||
         api == wire::Api::ncclScatter;
}

// ncclSuccess, or ncclInProgress of a non-blocking communicator, whose call goes on in a thread of NCCL's.
constexpr bool is_accepted(int result) {
  return result == 0 || result == kNcclInProgress;
}

// Key and work of the operation. Bytes follow nccl-tests: the larger of the buffers on one rank.
CallInfo describe_collective(const Collective& call, uint32_t comm, int nranks);

inline wire::CommEntry& comm_at(uint32_t index) {
  return segment()->comms[index];
}

inline wire::Api api_of(const CollectiveTicket& ticket) {
  return static_cast<wire::Api>(ticket.info.key.api);
}

}  // namespace xpurun::preload
