#include "preload/nccl/group.h"

#include "preload/core/state.h"

namespace xpurun::preload {

namespace {
__thread Group t_group;
}

Group& group_here() {
  if (t_group.times_off != times_switched_off()) {
    t_group.depth = 0;
    t_group.clear();
    t_group.times_off = times_switched_off();
  }
  return t_group;
}

bool Group::join(const CollectiveTicket& ticket) {
  uint32_t at = 0;
  while (at < target_count &&
         (target[at].first.comm != ticket.comm || target[at].first.info.stream != ticket.info.stream)) {
    ++at;
  }
  if (at == kTargets) {
    return false;
  }
  GroupTarget& found = target[at];
  if (at == target_count) {
    ++target_count;
    found.first = ticket;
    found.collectives = 0;
    found.point_to_point = 0;
  }
  ++(ticket.sequence != 0 ? found.collectives : found.point_to_point);
  return true;
}

bool Group::add(const GroupComm& made) {
  if (comm_count == kComms) {
    return false;
  }
  comm[comm_count++] = made;
  return true;
}

CollectiveTicket* Group::only_call() {
  const bool is_one =
      depth == 1 && target_count == 1 && target[0].collectives + target[0].point_to_point == 1;
  return is_one ? &target[0].first : nullptr;
}

void Group::clear() {
  target_count = 0;
  comm_count = 0;
}

}  // namespace xpurun::preload
