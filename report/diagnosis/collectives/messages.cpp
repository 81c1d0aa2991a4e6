#include "report/diagnosis/collectives/messages.h"

#include <algorithm>
#include <string_view>

namespace xpurun::report {

using model::CollectiveCall;

bool is_other_end(const CollectiveCall& a, const CollectiveCall& b) {
  return is_message(a.operation()) && is_message(b.operation()) && a.operation() != b.operation();
}

namespace {

bool differ(const CollectiveCall& a, const CollectiveCall& b) {
  // MPI's receives may be larger than their messages, and other types may have the same content.
  if (!a.name.empty()) {
    return false;
  }
  const bool sizes = a.count > 0 && b.count > 0 && a.count != b.count;
  const bool types = !a.dtype.empty() && !b.dtype.empty() && a.dtype != b.dtype;
  return sizes || types;
}

bool fits_tag(const CollectiveCall& a, const CollectiveCall& b) {
  return a.tag == b.tag || a.tag == model::kAnyTag || b.tag == model::kAnyTag;
}

// The newest message that `member` has sent to, or received from, this rank of the communicator: the sum over
// all tags that `like` takes.
uint64_t messages_with(const Member& member, std::string_view op, int peer, const CollectiveCall& like) {
  uint64_t sum = 0;
  for (const CollectiveCall& c : member.comm->point_to_point) {
    if (c.op == op && c.peer == peer && c.stage == model::CallStage::done && fits_tag(c, like)) {
      sum += c.sequence;
    }
  }
  return sum;
}

// An MPI receive from any rank or with any tag. A message for it exists if a peer has sent more than this
// rank has received from that peer.
Message open_receive(const CallGroup& group, const Member& m, const CollectiveCall& call) {
  Message out{.rank = m.rank, .peer = group.global_rank(call.peer), .call = &call};
  out.counterpart = m.comm->messages_known ? Counterpart::missing : Counterpart::unknown;
  size_t known = 0;
  for (const Member& peer : group.members) {
    const bool candidate = peer.comm != nullptr && (call.peer < 0 || peer.comm->rank == call.peer);
    known += candidate ? 1 : 0;
    if (!candidate || peer.rank == m.rank) {
      continue;
    }
    out.peers.insert(peer.rank);
    if (messages_with(peer, "send", m.comm->rank, call) > messages_with(m, "recv", peer.comm->rank, call)) {
      out.counterpart = Counterpart::equal;
    }
  }
  const bool complete = call.peer >= 0 ? known == 1 : group.unseen == 0;
  if (!complete && out.counterpart == Counterpart::missing) {
    out.counterpart = Counterpart::unknown;
  }
  return out;
}

// The peer waits in a receive that takes this message too.
bool takes(const CollectiveCall& receive, const CollectiveCall& send, int sender) {
  return receive.sequence == 0 && receive.operation() == model::CallOperation::recv &&
         receive.stage != model::CallStage::done && (receive.peer < 0 || receive.peer == sender) &&
         fits_tag(receive, send);
}

// A message of the peer to this rank with another tag, which this rank has not received: MPI sends small
// messages without the receiver. Only while the peer stands in a call, because otherwise the awaited message
// may come.
const CollectiveCall* unreceived(const Member& m, const CollectiveCall& call, const Member& peer) {
  const auto& theirs = peer.comm->point_to_point;
  const bool stands = std::any_of(theirs.begin(), theirs.end(), stands_in) ||
                      std::any_of(peer.comm->calls.begin(), peer.comm->calls.end(), stands_in);
  if (!stands || call.operation() != model::CallOperation::recv || !stands_in(call)) {
    return nullptr;
  }
  const auto sent = std::find_if(theirs.begin(), theirs.end(), [&](const CollectiveCall& c) {
    return c.operation() == model::CallOperation::send && c.peer == m.comm->rank &&
           c.stage == model::CallStage::done && c.tag != call.tag &&
           c.sequence > messages_with(m, "recv", peer.comm->rank, c);
  });
  return sent == theirs.end() ? nullptr : &*sent;
}

// The call of the peer that waits for this rank too, but with another tag; null if none.
const CollectiveCall* with_another_tag(const Member& m, const CollectiveCall& call, const Member& peer) {
  for (const CollectiveCall& other : peer.comm->point_to_point) {
    if (other.peer != m.comm->rank || !is_other_end(call, other) || fits_tag(other, call) ||
        !stands_in(call) || !stands_in(other)) {
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

// The latest parts of a peer in messages with a rank, which have ended.
struct EndedParts {
  uint64_t newest = 0;                    // number of the newest one that is known; 0: none
  const CollectiveCall* other = nullptr;  // the part of the message itself; null if it is not known
};

EndedParts ended_parts(const CallGroup& group, const Member& m, const CollectiveCall& call,
                       const Member& peer) {
  EndedParts out;
  for (const model::CallLane& lane : peer.record->lanes) {
    for (size_t i = std::min(lane.order.size(), lane.numbers.size()); i > 0; --i) {
      const auto kind = static_cast<size_t>(lane.order[i - 1]);
      if (kind >= lane.kinds.size() || lane.kinds[kind].communicator != group.any->id) {
        continue;
      }
      const CollectiveCall& other = lane.kinds[kind].call;
      if (other.peer != m.comm->rank || other.tag != call.tag || !is_other_end(call, other)) {
        continue;
      }
      out.newest = std::max(out.newest, lane.numbers[i - 1]);
      if (lane.numbers[i - 1] == call.sequence && out.other == nullptr) {
        out.other = &other;
      }
    }
  }
  return out;
}

Message message_of(const CallGroup& group, const Member& m, const CollectiveCall& call) {
  const bool mpi = group.any->source == model::CallSource::mpi;
  if (mpi && call.sequence == 0 && call.operation() == model::CallOperation::recv) {
    return open_receive(group, m, call);
  }
  Message out{.rank = m.rank, .peer = group.global_rank(call.peer), .call = &call};
  if (out.peer >= 0) {
    out.peers = {out.peer};
  }
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
    if (mpi && call.operation() == model::CallOperation::send && takes(other, call, m.comm->rank)) {
      out.counterpart = Counterpart::equal;
      return out;
    }
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
  const EndedParts ended = ended_parts(group, m, call, *peer);
  if (ended.other != nullptr) {
    out.other = ended.other;
    out.counterpart = differ(call, *ended.other) ? Counterpart::differs : Counterpart::equal;
    return out;
  }
  newest = std::max(newest, ended.newest);
  const bool tags = !group.any->window;  // are the program's
  if (const CollectiveCall* other = tags ? with_another_tag(m, call, *peer) : nullptr) {
    out.other = other;
    out.counterpart = Counterpart::differs;
    return out;
  }
  // The record keeps only the latest calls. Messages of one tag between two ranks have one order.
  const bool forgotten = newest == 0 && call.stage == model::CallStage::launched &&
                         peer->comm->messages > peer->comm->point_to_point.size() &&
                         peer->comm->messages >= call.sequence;
  if (newest > call.sequence || forgotten ||
      (mpi && !(m.comm->messages_known && peer->comm->messages_known))) {
    out.counterpart = Counterpart::unknown;
  } else if (const CollectiveCall* other = mpi && tags ? unreceived(m, call, *peer) : nullptr) {
    out.other = other;
    out.counterpart = Counterpart::differs;
  }
  return out;
}

}  // namespace

std::vector<Message> messages_of(const CallGroup& group) {
  std::vector<Message> out;
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->point_to_point.size(); ++i) {
      const CollectiveCall& call = m.comm->point_to_point[i];
      if (call.stage != model::CallStage::done && !model::is_lock_call(call.op)) {
        out.push_back(message_of(group, m, call));
      }
    }
  }
  return out;
}

}  // namespace xpurun::report
