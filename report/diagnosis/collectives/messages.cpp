#include "report/diagnosis/collectives/messages.h"

#include <algorithm>

namespace xpurun::report {

using model::CollectiveCall;

namespace {

bool is_other_end(const CollectiveCall& a, const CollectiveCall& b) {
  return is_message(a.operation()) && is_message(b.operation()) && a.operation() != b.operation();
}

bool differ(const CollectiveCall& a, const CollectiveCall& b) {
  const bool sizes = a.count > 0 && b.count > 0 && a.count != b.count;
  const bool types = !a.dtype.empty() && !b.dtype.empty() && a.dtype != b.dtype;
  return sizes || types;
}

bool is_inside(const CollectiveCall& call) {
  return call.stage == model::CallStage::called;
}

// The call of the peer that waits for this rank too, but with another tag; null if none.
const CollectiveCall* with_another_tag(const Member& m, const CollectiveCall& call, const Member& peer) {
  for (const CollectiveCall& other : peer.comm->point_to_point) {
    if (other.peer != m.comm->rank || !is_other_end(call, other) || other.tag == call.tag ||
        !is_inside(call) || !is_inside(other)) {
      continue;
    }
    const auto& own = m.comm->point_to_point;
    const bool answered = std::any_of(own.begin(), own.end(), [&](const CollectiveCall& c) {
      return c.peer == call.peer && is_other_end(other, c) && c.tag == other.tag &&
             c.sequence == other.sequence;
    });
    if (!answered) {
      return &other;
    }
  }
  return nullptr;
}

// The part of the peer, which has ended; null if it is not known.
const CollectiveCall* ended_part(const CallGroup& group, const Member& m, const CollectiveCall& call,
                                 const Member& peer) {
  for (const model::CallLane& lane : peer.record->lanes) {
    for (size_t i = std::min(lane.order.size(), lane.numbers.size()); i > 0; --i) {
      const auto kind = static_cast<size_t>(lane.order[i - 1]);
      if (lane.numbers[i - 1] != call.sequence || kind >= lane.kinds.size()) {
        continue;
      }
      const CollectiveCall& other = lane.kinds[kind].call;
      if (lane.kinds[kind].communicator == group.any->id && other.peer == m.comm->rank &&
          other.tag == call.tag && is_other_end(call, other)) {
        return &other;
      }
    }
  }
  return nullptr;
}

Message message_of(const CallGroup& group, const Member& m, const CollectiveCall& call) {
  Message out{.rank = m.rank, .peer = group.global_rank(call.peer), .call = &call};
  const Member* peer = out.peer >= 0 && out.peer != m.rank ? group.member(out.peer) : nullptr;
  if (peer == nullptr || !is_message(call.operation())) {
    return out;
  }
  out.counterpart = Counterpart::missing;
  if (peer->comm == nullptr) {
    return out;
  }
  uint64_t newest = 0;
  for (const CollectiveCall& other : peer->comm->point_to_point) {
    if (other.peer != m.comm->rank || !is_other_end(call, other) || other.tag != call.tag) {
      continue;
    }
    newest = std::max(newest, other.sequence);
    if (other.sequence == call.sequence) {
      out.other = &other;
      const bool open = other.stage != model::CallStage::done;
      out.counterpart = open && differ(call, other) ? Counterpart::differs : Counterpart::equal;
      return out;
    }
  }
  if (const CollectiveCall* other = ended_part(group, m, call, *peer)) {
    out.other = other;
    out.counterpart = differ(call, *other) ? Counterpart::differs : Counterpart::equal;
    return out;
  }
  if (const CollectiveCall* other = with_another_tag(m, call, *peer)) {
    out.other = other;
    out.counterpart = Counterpart::differs;
    return out;
  }
  // The record keeps only the latest calls. Messages of one tag between two ranks have one order.
  const bool forgotten = newest == 0 && call.stage == model::CallStage::launched &&
                         peer->comm->messages > peer->comm->point_to_point.size();
  if (newest > call.sequence || forgotten) {
    out.counterpart = Counterpart::unknown;
  }
  return out;
}

}  // namespace

std::vector<Message> messages_of(const CallGroup& group) {
  std::vector<Message> out;
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->point_to_point.size(); ++i) {
      const CollectiveCall& call = m.comm->point_to_point[i];
      if (call.stage != model::CallStage::done) {
        out.push_back(message_of(group, m, call));
      }
    }
  }
  return out;
}

}  // namespace xpurun::report
