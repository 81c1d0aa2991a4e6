#include "preload/nccl/group.h"

namespace xpurun::preload {

__thread Group t_group;

bool Group::join(const CollectiveTicket& ticket) {
  uint32_t at = 0;
  while (at < target_count &&
         (target[at].first.comm != ticket.comm || target[at].first.info.stream != ticket.info.stream)) {
    ++at;
  }
  // A full table is no error: the caller then counts the call as launched at once.
  if (at == kTargets) {
    return false;
  }
  GroupTarget& found = target[at];
  if (at == target_count) {
    ++target_count;
    found.first = ticket;
    found.collectives = 0;
    found.point_to_point = 0;
    found.messages = 0;
  }
  if (ticket.message != 0 && found.messages < Pending::kMessages) {
    found.message[found.messages++] = {ticket.op, static_cast<uint32_t>(ticket.message)};
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

}  // namespace xpurun::preload
