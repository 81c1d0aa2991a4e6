// A collective or point-to-point call of NCCL as data: its arguments, and the facts about it from the call
// until its launch.
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

// Passed from collective_begins() to collective_ends(). Zeroed memory is not a valid ticket: `event` and
// `record` must be set. Plain data, kept in a thread-local group.
struct CollectiveTicket {
  CallInfo info;
  uint32_t comm;  // wire::kNoComm: not in the ledger
  uint32_t op;
  uint64_t sequence;  // on the communicator; 0: point-to-point
  uint64_t message;   // a timed send or receive: its number among equal ones, from 1
  uint64_t call_ns;
  uint64_t begin_cost_ns;   // this library's host time before the call, if measured
  uint64_t record_ns;       // the part of begin_cost_ns for the start event
  uint32_t event;           // the event recorded at the start, or kNoEvent
  uint32_t record;          // the record for NCCL's times, or kNoRecord
  int32_t device;           // the event's device
  bool sample;              // the call is to be timed
  bool first_of_step;       // because it is the first of its step
  bool asked;               // stop_asking_nccl() is due
  wire::CollectiveHow how;  // as NCCL reported it during the call
};

constexpr bool is_point_to_point(wire::Api api) {
  return api == wire::Api::ncclSend || api == wire::Api::ncclRecv;
}

// Calls that NCCL carries out as sends and receives. NCCL's profiler interface reports these operations
// individually, never the whole call.
constexpr bool is_made_of_sends(wire::Api api) {
  return is_point_to_point(api) || api == wire::Api::ncclAlltoAll || api == wire::Api::ncclGather ||
         api == wire::Api::ncclScatter;
}

// ncclSuccess, or ncclInProgress for a non-blocking communicator, whose call continues in one of NCCL's
// threads.
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
