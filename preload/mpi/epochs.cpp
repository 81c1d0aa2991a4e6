// Epochs of windows between MPI_Win_post and MPI_Win_wait, and between MPI_Win_start and MPI_Win_complete.

#include "preload/mpi/ledger.h"

namespace xpurun::preload {

namespace {

constexpr uint32_t kMostPeers = 256;

struct Epoch {
  uint32_t count;
  int32_t peers[kMostPeers];      // ranks of the window's communicator
  uint32_t requests[kMostPeers];  // kNoMpiEntry: there was no room
};
constinit Epoch g_epochs[2][wire::kMpiWindows] = {};

Epoch& epoch_of(uint32_t window, MpiEpoch epoch) {
  return g_epochs[static_cast<uint32_t>(epoch)][window];
}

// The rank in the communicator of this rank of MPI_COMM_WORLD; -1: none.
int32_t rank_in(const wire::MpiComm& comm, int32_t global) {
  const uint32_t members = get(comm.members);
  if (members == 0) {  // all ranks of MPI_COMM_WORLD
    return global;
  }
  for (int32_t i = 0; i < get(comm.size); ++i) {
    if (mpi_segment()->members[members - 1 + static_cast<uint32_t>(i)] == global) {
      return i;
    }
  }
  return -1;
}

// The number of ranks of the group, at most kMostPeers, as ranks of the communicator; 0: not known.
uint32_t ranks_of_group(MpiWord group, const wire::MpiComm& comm, int32_t* out) {
  const auto size_of = reinterpret_cast<int (*)(MpiWord, int*)>(find_in_mpi("PMPI_Group_size"));
  const auto group_of = reinterpret_cast<int (*)(MpiWord, void*)>(find_in_mpi("PMPI_Comm_group"));
  const auto free_group = reinterpret_cast<int (*)(void*)>(find_in_mpi("PMPI_Group_free"));
  using Translate = int (*)(MpiWord, int, const int*, MpiWord, int*);
  const auto translate = reinterpret_cast<Translate>(find_in_mpi("PMPI_Group_translate_ranks"));
  int size = 0;
  MpiWord world = 0;
  if (!size_of || !group_of || !free_group || !translate || size_of(group, &size) != 0 || size < 0 ||
      static_cast<uint32_t>(size) > kMostPeers || group_of(g_mpi_abi.world, &world) != 0) {
    return 0;
  }
  int local[kMostPeers];
  int global[kMostPeers];
  for (int i = 0; i < size; ++i) {
    local[i] = i;
  }
  const bool known = translate(group, size, local, mpi_handle(world), global) == 0;
  free_group(&world);
  for (int i = 0; known && i < size; ++i) {
    out[i] = rank_in(comm, global[i]);
  }
  return known ? static_cast<uint32_t>(size) : 0;
}

}  // namespace

void begin_mpi_epoch(uint32_t window, MpiEpoch epoch, MpiWord group, const wire::MpiCall& call) {
  wire::MpiSegment& shared = *mpi_segment();
  const uint32_t comm = get(call.comm);
  Epoch& e = epoch_of(window, epoch);
  e.count = ranks_of_group(group, shared.comms[comm], e.peers);
  if (e.count == 0) {
    shared.comms[comm].flags.fetch_or(wire::kMpiCommMissed);
  }
  const int32_t tag = epoch == MpiEpoch::access ? wire::kMpiPosted : wire::kMpiCompleted;
  for (uint32_t i = 0; i < e.count; ++i) {
    wire::MpiCall message{};
    copy_mpi_call(message, call);
    // Not yet in the record of the call itself, which becomes valid by it.
    const auto function =
        epoch == MpiEpoch::access ? wire::MpiFunction::MPI_Win_start : wire::MpiFunction::MPI_Win_post;
    put(message.function, static_cast<uint32_t>(function));
    put(message.window, uint32_t{0});
    put(message.peer, e.peers[i]);
    put(message.tag, tag);
    put(message.sequence, next_mpi_message(shared, {comm, true, e.peers[i], tag}));
    // No request of the library has such a handle.
    const MpiWord handle =
        ~MpiWord{0} - (static_cast<MpiWord>(epoch) * wire::kMpiWindows + window) * kMostPeers - i;
    e.requests[i] = add_mpi_request(handle, message, false);
  }
}

void end_mpi_epoch(uint32_t window, MpiEpoch epoch) {
  Epoch& e = epoch_of(window, epoch);
  for (uint32_t i = 0; i < e.count; ++i) {
    if (e.requests[i] != kNoMpiEntry) {
      end_mpi_request(e.requests[i], nullptr);
    }
  }
  e.count = 0;
}

void await_mpi_epoch(uint32_t window, MpiEpoch epoch, const wire::MpiThread& thread,
                     wire::MpiFunction function) {
  const Epoch& e = epoch_of(window, epoch);
  for (uint32_t i = 0; i < e.count; ++i) {
    if (e.requests[i] != kNoMpiEntry) {
      wire::MpiRequest& r = mpi_segment()->requests[e.requests[i]];
      put(r.thread, t_mpi.slot - 1);
      put(r.waited_by, static_cast<uint32_t>(function));
      put(r.waited_from, get(thread.call.caller));
      put(r.waited_at, get(thread.steps));
    }
  }
}

void tell_mpi_epoch(uint32_t window, MpiEpoch epoch, int32_t tag) {
  const Epoch& e = epoch_of(window, epoch);
  const uint32_t comm = get(mpi_segment()->windows[window].comm);
  for (uint32_t i = 0; i < e.count; ++i) {
    next_mpi_message(*mpi_segment(), {comm, false, e.peers[i], tag});
  }
}

}  // namespace xpurun::preload
