// Hooks of NCCL's functions: what a call is, by its arguments (one overload per prototype), and the actions
// before and after it. Calling thread.
#pragma once

#include "preload/core/vendor.h"
#include "preload/nccl/collective_call.h"
#include "preload/nccl/comm_life.h"

namespace xpurun::preload {

// clang-format off
// ncclAllReduce and ncclReduceScatter share a prototype with ncclBroadcast and its kind, which have a root in the
// place of the operation.
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
    if (is_made_of_sends(kApi)) {
      sends_called();
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
      group_began();
    }
    return result;
  }
};

struct CommCall {
  template <wire::Api kApi>
  static int call(NcclInit* real, void** comm, int nranks, NcclUniqueId id, int rank) {
    comm_began(identity_of(&id, 1), rank, nranks, nullptr, 0);
    const int result = call_inside(real, comm, nranks, id, rank);
    comm_made(result, comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclInitConfig* real, void** comm, int nranks, NcclUniqueId id, int rank,
                  NcclConfig* config) {
    comm_began(identity_of(&id, 1), rank, nranks, config, 0);
    const int result = call_inside(real, comm, nranks, id, rank, config);
    comm_made(result, comm);
    return result;
  }
  template <wire::Api kApi>
  static int call(NcclInitScalable* real, void** comm, int nranks, int rank, int id_count, NcclUniqueId* ids,
                  NcclConfig* config) {
    comm_began(identity_of(ids, id_count), rank, nranks, config, 0);
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
    comm_began(identity, -1, 0, config, identity);
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
  // Buffer registrations are hooked only for their failures.
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(void*, A...), void* comm, A... args) {
    const int result = call_inside(real, comm, args...);
    comm_failed(comm, result);
    return result;
  }
};

}  // namespace xpurun::preload
