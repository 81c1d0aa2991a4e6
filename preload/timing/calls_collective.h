// What a call of NCCL is, from its arguments, and how it goes into the ledger. One overload a prototype.
#pragma once

#include "preload/timing/timed_call.h"
#include "preload/timing/vendor.h"

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

// What collective_begins() found out, for collective_ends().
struct CollectiveTicket {
  CallInfo info;
  uint32_t comm;  // wire::kNoComm: not in the ledger
  uint32_t op;
  uint64_t sequence;  // 0: point-to-point
  uint64_t call_ns;
  uint64_t begin_cost_ns;  // ours before the call, if measured
  uint64_t record_ns;      // of the start event
  uint32_t event;          // with a start recorded, or kNoEvent
  uint32_t record;         // that NCCL is asked about, or kNoRecord
  int32_t device;
  bool asked;               // ask_no_more() is due
  wire::CollectiveHow how;  // as NCCL told during the call
};

// CUDA_DEVICE_MAX_CONNECTIONS=1: what we put on one stream may stand between the work of others.
bool streams_share_a_queue();
// An event behind work of this communicator has been reached, or is not waited for any more.
void mark_is_gone(uint32_t comm);

CollectiveTicket collective_begins(const Collective& call);
void collective_ends(CollectiveTicket& ticket, int result);

void group_begins();
// `ends` before the real ncclGroupEnd, `ended` after.
void group_ends();
void group_ended(int result);

// A communicator on its way: `place` is where NCCL will put its handle.
void comm_began(uint64_t identity, int rank, int nranks, const NcclConfig* config, uint64_t parent,
                void** place);
void comm_made(int result, void** place);
void comms_made(int result, void** comms, int count);
uint64_t split_identity(void* comm, int color);
void comm_changed(void* comm, wire::CommState state);
void comm_failed(void* comm, int result);

// What NCCL carries out as sends and receives, of which its profiler interface does not tell as a whole.
constexpr bool is_an_exchange(wire::Api api) {
  return api == wire::Api::ncclSend || api == wire::Api::ncclRecv || api == wire::Api::ncclAlltoAll ||
         api == wire::Api::ncclGather || api == wire::Api::ncclScatter;
}
// After the call.
void exchange_called();

// clang-format off
// ncclAllReduce and ncclReduceScatter have an operation where the others of this prototype have a root.
constexpr bool has_root(wire::Api api) {
  return api == wire::Api::ncclBroadcast || api == wire::Api::ncclGather || api == wire::Api::ncclScatter;
}
inline Collective collective_of(NcclReduceAll*, wire::Api api, const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream) {
  return {api, count, type, has_root(api) ? 0 : op, has_root(api) ? op : -1, comm, stream, send, receive};
}
inline Collective collective_of(NcclReduce*, wire::Api api, const void* send, void* receive, size_t count, int type, int op, int root, void* comm, void* stream) {
  return {api, count, type, op, root, comm, stream, send, receive};
}
inline Collective collective_of(NcclInPlace*, wire::Api api, void* buffer, size_t count, int type, int root, void* comm, void* stream) {
  return {api, count, type, 0, root, comm, stream, buffer, buffer};
}
inline Collective collective_of(NcclPlain*, wire::Api api, const void* send, void* receive, size_t count, int type, void* comm, void* stream) {
  return {api, count, type, 0, -1, comm, stream, send, receive};
}
inline Collective collective_of(NcclSendTo*, wire::Api api, const void*, size_t count, int type, int peer, void* comm, void* stream) {
  return {api, count, type, 0, peer, comm, stream, nullptr, nullptr};
}
// clang-format on

struct CollectiveCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(A...), A... args) {
    CollectiveTicket ticket = collective_begins(collective_of(real, kApi, args...));
    int result = 0;
    {
      const Inside inside;
      result = real(args...);
    }
    collective_ends(ticket, result);
    if (is_an_exchange(kApi)) {
      exchange_called();
    }
    return result;
  }
};

struct GroupCall {
  template <wire::Api kApi>
  static int call(NcclGroup* real) {
    constexpr bool kEnd = kApi == wire::Api::ncclGroupEnd;
    if (kEnd) {
      group_ends();
    }
    int result = 0;
    {
      const Inside inside;
      result = real();
    }
    if (kEnd) {
      group_ended(result);
    } else if (result == 0) {
      group_begins();
    }
    return result;
  }
};

template <typename Function, typename... A>
int call_inside(Function* real, A... args) {
  const Inside inside;
  return real(args...);
}

uint64_t identity_of(const NcclUniqueId* ids, int count);

struct CommCall {
  template <wire::Api kApi>
  static int call(NcclInit* real, void** comm, int nranks, NcclUniqueId id, int rank) {
    comm_began(identity_of(&id, 1), rank, nranks, nullptr, 0, comm);
    const int result = call_inside(real, comm, nranks, id, rank);
    comm_made(result, comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclInitConfig* real, void** comm, int nranks, NcclUniqueId id, int rank,
                  NcclConfig* config) {
    comm_began(identity_of(&id, 1), rank, nranks, config, 0, comm);
    const int result = call_inside(real, comm, nranks, id, rank, config);
    comm_made(result, comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclInitScalable* real, void** comm, int nranks, int rank, int id_count, NcclUniqueId* ids,
                  NcclConfig* config) {
    comm_began(identity_of(ids, id_count), rank, nranks, config, 0, comm);
    const int result = call_inside(real, comm, nranks, rank, id_count, ids, config);
    comm_made(result, comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclInitAll* real, void** comms, int count, const int* devices) {
    const int result = call_inside(real, comms, count, devices);
    comms_made(result, comms, count);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclSplit* real, void* comm, int color, int key, void** new_comm, NcclConfig* config) {
    const uint64_t identity = split_identity(comm, color);
    if (color == kNcclSplitNoColor) {
      return call_inside(real, comm, color, key, new_comm, config);
    }
    comm_began(identity, -1, 0, config, identity, new_comm);
    const int result = call_inside(real, comm, color, key, new_comm, config);
    comm_made(result, new_comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclOnComm* real, void* comm) {
    constexpr wire::CommState kState = kApi == wire::Api::ncclCommAbort      ? wire::CommState::aborted
                                       : kApi == wire::Api::ncclCommFinalize ? wire::CommState::finalized
                                                                             : wire::CommState::destroyed;
    comm_changed(comm, kState);
    return call_inside(real, comm);
  }
  // Registrations: only their failure is of interest.
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(void*, A...), void* comm, A... args) {
    const int result = call_inside(real, comm, args...);
    comm_failed(comm, result);
    return result;
  }
};

}  // namespace xpurun::preload
