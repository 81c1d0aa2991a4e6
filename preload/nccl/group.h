// The calling thread's NCCL group (ncclGroupStart to ncclGroupEnd). NCCL launches the calls of a group
// together when the outermost group ends, so that only then is known what has been launched on which stream.
// PyTorch puts every batch of sends and receives into one.
#pragma once

#include "preload/core/state.h"
#include "preload/nccl/collective.h"

#include <stdint.h>

namespace xpurun::preload {

// The calls of a group on one communicator and stream.
struct GroupTarget {
  CollectiveTicket first;  // the ticket of the only call, if there is one
  uint64_t collectives;
  uint64_t point_to_point;
};

// A communicator that is being made in the group; NCCL may write its handle only at the group's end.
struct GroupComm {
  uint32_t entry;  // in the ledger
  void** place;    // where NCCL writes the handle
};

// Zero is "no group". One a thread, in thread-local memory.
struct Group {
  static constexpr uint32_t kTargets = 32;
  static constexpr uint32_t kComms = 32;

  uint32_t depth;
  uint32_t times_off;  // times_switched_off() when the group was opened
  uint32_t target_count;
  uint32_t comm_count;
  GroupTarget target[kTargets];
  GroupComm comm[kComms];

  // False if the group has calls on more communicators and streams than fit.
  bool join(const CollectiveTicket& ticket);
  bool add(const GroupComm& comm);
  // The ticket of a group that holds one call in all, else nullptr: such a group is a call like any other.
  CollectiveTicket* only_call() {
    const bool is_one =
        depth == 1 && target_count == 1 && target[0].collectives + target[0].point_to_point == 1;
    return is_one ? &target[0].first : nullptr;
  }
  void clear() {
    target_count = 0;
    comm_count = 0;
  }
};

__attribute__((visibility("hidden"))) extern __thread Group t_group;

// A group that was open when timing went off has ended unseen, and is forgotten here.
inline Group& group_here() {
  if (t_group.times_off != times_switched_off()) {
    t_group.depth = 0;
    t_group.clear();
    t_group.times_off = times_switched_off();
  }
  return t_group;
}

}  // namespace xpurun::preload
