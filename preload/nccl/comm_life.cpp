#include "preload/nccl/comm_life.h"

#include "preload/core/clock.h"
#include "preload/core/resolve.h"
#include "preload/nccl/group.h"
#include "preload/nccl/ledger.h"

namespace xpurun::preload {

namespace {

// The entry of the communicator that the thread is creating.
__thread uint32_t t_making_entry;

void note_nccl_version() {
  std::atomic<uint32_t>& noted = segment()->header.nccl_version;
  if (noted.load() != 0) {
    return;
  }
  const auto get = reinterpret_cast<NcclVersion*>(find_in_library("libnccl.so", "ncclGetVersion"));
  int version = 0;
  if (get != nullptr && get(&version) == 0) {
    noted.store(static_cast<uint32_t>(version));
  }
}

// ncclConfig_t grows with NCCL; its size member shows whether the caller's version has a name (2.27).
const char* name_in(const NcclConfig* config) {
  const bool has_name =
      config != nullptr && config->magic == kNcclConfigMagic && config->size >= sizeof(NcclConfig);
  return has_name ? config->comm_name : nullptr;
}

}  // namespace

void comm_finished(uint32_t entry, int result, void** place) {
  wire::CommEntry& comm = comm_at(entry);
  if (!is_accepted(result)) {
    comm.last_result.store(result);
    comm.state.store(static_cast<uint32_t>(wire::CommState::failed), std::memory_order_release);
    return;
  }
  comm.handle.store(reinterpret_cast<uintptr_t>(*place));
  comm.last_change_ns.store(now_ns());
  comm.state.store(static_cast<uint32_t>(wire::CommState::live), std::memory_order_release);
}

void comm_began(uint64_t identity, int rank, int nranks, const NcclConfig* config, uint64_t parent) {
  note_nccl_version();
  // Entered before the call: creating a communicator waits for all ranks, and a rank that hangs there must be
  // visible in the ledger.
  t_making_entry = claim_comm(identity, rank, nranks, name_in(config));
  if (t_making_entry != wire::kNoComm) {
    comm_at(t_making_entry).parent.store(parent);
  }
}

void comm_made(int result, void** place) {
  const uint32_t entry = t_making_entry;
  if (entry == wire::kNoComm || !is_timing_on()) {
    return;
  }
  Group& group = group_here();
  // Inside a group, NCCL creates the communicator at the outermost ncclGroupEnd and writes the handle only
  // then, so the entry is completed there.
  const bool is_later = group.depth > 0 && is_accepted(result) && group.add({entry, place});
  if (!is_later) {
    comm_finished(entry, result, place);
  }
}

void comms_made(int result, void** comms, int count) {
  if (!is_accepted(result)) {
    return;
  }
  note_nccl_version();
  // ncclCommInitAll has no unique id: one process holds all ranks. The identity is good in this process only.
  const uint64_t identity = mix(reinterpret_cast<uintptr_t>(comms[0]), now_ns());
  for (int i = 0; i < count; ++i) {
    const uint32_t entry = claim_comm(identity, i, count, nullptr);
    if (entry != wire::kNoComm) {
      comm_at(entry).flags.store(wire::kCommLocalIdentity);
      comm_finished(entry, 0, &comms[i]);
    }
  }
}

void comm_changed(void* comm, wire::CommState state) {
  const uint32_t index = comm_of(comm);
  if (index != wire::kNoComm) {
    comm_at(index).last_change_ns.store(now_ns());
    comm_at(index).state.store(static_cast<uint32_t>(state), std::memory_order_release);
  }
}

void comm_failed(void* comm, int result) {
  if (is_accepted(result)) {
    return;
  }
  const uint32_t index = comm_of(comm);
  if (index != wire::kNoComm) {
    comm_at(index).last_result.store(result);
  }
}

uint64_t identity_of(const NcclUniqueId* ids, int count) {
  return ids == nullptr ? 0 : hash_bytes(ids, static_cast<uint64_t>(count) * sizeof(NcclUniqueId), 0);
}

uint64_t split_identity(void* comm, int color) {
  const uint32_t index = comm_of(comm);
  if (index == wire::kNoComm) {
    return 0;
  }
  wire::CommEntry& parent = comm_at(index);
  // ncclCommSplit is collective, so a split has the same number among its parent's splits on every rank.
  const uint32_t number = parent.splits.fetch_add(1);
  return mix(mix(parent.identity.load(), number), static_cast<uint64_t>(static_cast<uint32_t>(color)));
}

}  // namespace xpurun::preload
