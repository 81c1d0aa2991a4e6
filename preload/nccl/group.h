// The calling thread's NCCL group (ncclGroupStart to ncclGroupEnd). NCCL launches the calls of a group
// together when the outermost group ends, so only then is the launch of each stream's calls known. PyTorch
// puts every batch of sends and receives into a group.
#pragma once

#include "preload/core/state.h"
#include "preload/nccl/collective.h"
#include "preload/record/pending.h"

#include <stdint.h>

namespace xpurun::preload {

// The calls of a group on one communicator and one stream.
struct GroupTarget {
  CollectiveTicket first;  // the ticket, if there is only one call
  uint64_t collectives;
  uint64_t point_to_point;
  uint32_t messages;  // the first samples among the sends and receives
  GroupMessage message[Pending::kMessages];

  // Several messages without a collective, at least one of which is a sample: one kernel does them all, and
  // its begin shows when this rank was ready.
  bool is_timed_as_a_whole() const {
    return collectives == 0 && point_to_point > 1 && messages > 0 && first.sample;
  }
};

// A communicator that is being created in the group; NCCL may not write its handle before the group's end.
struct GroupComm {
  uint32_t entry;  // index in the ledger
  void** place;    // where NCCL writes the handle
};

// Zero means no group. One per thread, in thread-local memory.
struct Group {
  static constexpr uint32_t kTargets = 32;
  static constexpr uint32_t kComms = 32;

  uint32_t depth;
  uint32_t times_off;  // times_switched_off() at the start of the group
  uint32_t target_count;
  uint32_t comm_count;
  GroupTarget target[kTargets];
  GroupComm comm[kComms];

  // False if the group has calls on more communicators and streams than fit.
  bool join(const CollectiveTicket& ticket);
  // False if there is no room.
  bool add(const GroupComm& comm);
  // The ticket of a group with one call in total, else nullptr: such a group is like a single call.
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

// If timing was switched off inside a group, the end of the group was missed: discard the group here.
inline Group& group_here() {
  if (t_group.times_off != times_switched_off()) {
    t_group.depth = 0;
    t_group.clear();
    t_group.times_off = times_switched_off();
  }
  return t_group;
}

}  // namespace xpurun::preload
