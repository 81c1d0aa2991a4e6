#include "report/diagnosis/collectives/wait_graph.h"

#include "report/diagnosis/collectives/call_difference.h"
#include "report/diagnosis/collectives/called_by.h"
#include "report/diagnosis/collectives/messages.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace xpurun::report {

using model::CollectiveCall;
using model::is_lock_call;
using model::RankSet;

namespace {

bool meet(const RankSet& a, const RankSet& b) {
  return a.minus(b).size() < a.size();
}

// The call of this group that holds the rank: the oldest open call. If ends of calls are not recorded, the
// oldest call that another rank has not entered.
uint64_t holding_call(const Member& m, uint64_t least_called) {
  if (const uint64_t open = open_call(m)) {
    return open;
  }
  if (m.comm == nullptr || m.comm->done_known || m.comm->called <= least_called ||
      is_done(m, least_called + 1)) {
    return 0;
  }
  const CollectiveCall* call = call_at(m, least_called + 1);
  return call != nullptr && !needs_everybody(*call) ? 0 : least_called + 1;
}

void add_collective_waits(const CallGroup& group, WaitGraph& graph) {
  const uint64_t least = group.least_called();
  std::map<uint64_t, RankSet> missing;  // by sequence number
  for (const Member& m : group.members) {
    const uint64_t sequence = holding_call(m, least);
    if (sequence == 0) {
      continue;
    }
    auto [it, fresh] = missing.try_emplace(sequence);
    for (size_t i = 0; fresh && i < group.members.size(); ++i) {
      if (group.members[i].called() < sequence) {
        it->second.insert(group.members[i].rank);
      }
    }
    if (it->second.empty()) {
      graph.held.insert(m.rank);
    } else {
      graph.waits.push_back({.rank = m.rank, .on = it->second, .group = &group, .sequence = sequence});
    }
  }
}

// The call ends when all messages that it waits for have come.
bool waits_for_all(const CollectiveCall& call) {
  return call.name.starts_with("MPI_Waitall") || call.name.starts_with("MPI_Sendrecv");
}

void add_message_waits(const CallGroup& group, WaitGraph& graph) {
  // MPI's record shows which of its unfinished messages a rank waits for.
  const bool only_awaited = group.any->source == model::CallSource::mpi;
  const std::vector<Message> messages = messages_of(group);
  RankSet incomplete;  // ranks of which one message of several has no counterpart
  for (const Message& m : messages) {
    const bool waits = !only_awaited || m.call->stage == model::CallStage::called;
    if (m.counterpart == Counterpart::missing && !m.peers.empty() && waits) {
      graph.waits.push_back({.rank = m.rank, .on = m.peers, .group = &group, .message = m.call});
      if (waits_for_all(*m.call)) {
        incomplete.insert(m.rank);
      }
    }
  }
  for (const Message& m : messages) {
    const bool open = m.counterpart != Counterpart::missing || m.peers.empty();
    if (open && m.call->stage == model::CallStage::called &&
        !(waits_for_all(*m.call) && incomplete.contains(m.rank))) {
      graph.held.insert(m.rank);
    }
  }
}

// Ranks that hold a lock of the window which cannot be given to this rank too.
RankSet holders_of(const CallGroup& group, const Member& m, const CollectiveCall& wanted) {
  RankSet out;
  for (const Member& other : group.members) {
    if (other.rank == m.rank || other.comm == nullptr) {
      continue;
    }
    for (const model::HeldLock& lock : other.comm->locks) {
      const bool same = lock.target < 0 || wanted.peer < 0 || lock.target == wanted.peer;
      if (same && (lock.exclusive || wanted.exclusive)) {
        out.insert(other.rank);
      }
    }
  }
  return out;
}

void add_lock_waits(const CallGroup& group, WaitGraph& graph) {
  for (const Member& m : group.members) {
    for (size_t i = 0; m.comm != nullptr && i < m.comm->point_to_point.size(); ++i) {
      const CollectiveCall& call = m.comm->point_to_point[i];
      if (!is_lock_call(call.op) || call.stage != model::CallStage::called) {
        continue;
      }
      if (RankSet holders = holders_of(group, m, call); holders.empty()) {
        graph.held.insert(m.rank);
      } else {
        graph.waits.push_back({.rank = m.rank, .on = std::move(holders), .group = &group, .message = &call});
      }
    }
  }
}

const CollectiveCall* call_in(const CallWait& w) {
  return w.message != nullptr ? w.message : call_at(*w.group->member(w.rank), w.sequence);
}

bool stands_at_its_end(const CallWait& w) {
  const CollectiveCall* call = w.message == nullptr ? call_in(w) : nullptr;
  return call != nullptr && call->op == "finalize";
}

double age_of(const CallWait& w) {
  const CollectiveCall* call = call_in(w);
  return call != nullptr ? call->age_s : 0;
}

void add_wait_row(const CallWait& w, std::vector<model::CalledBy>& rows) {
  if (const CollectiveCall* call = call_in(w)) {
    model::CalledBy row = row_of(*w.group, w.rank, *call);
    row.holders = is_lock_call(call->op) ? w.on : RankSet();
    add_row(rows, std::move(row));
  } else {
    CollectiveCall unknown;
    unknown.sequence = w.sequence;
    add_row(rows, row_of(*w.group, w.rank, unknown));
  }
}

CallFault fault_of_message(const CollectiveCall& message) {
  if (is_lock_call(message.op)) {
    return CallFault::locked;
  }
  return message.operation() == model::CallOperation::recv ? CallFault::not_sent : CallFault::not_received;
}

CallFinding message_finding(const std::vector<const CallWait*>& waits, const RankSet& accused) {
  const CallWait& first = *waits.front();
  CallFinding f{.fault = fault_of_message(*first.message),
                .collective = communicator_of(*first.group, first.message->sequence),
                .accused = accused};
  for (const CallWait* w : waits) {
    if (w->message != nullptr) {
      add_wait_row(*w, f.collective.calls);
      f.waiting.insert(w->rank);
    }
  }
  f.waiting = f.waiting.minus(accused);
  return f;
}

// The message may have the wrong peer: another rank waits for the same kind of message from this rank, and
// this is the first message with this peer. Otherwise the peer has left out its part. In the first round of a
// pipeline that sends both ways, the two cases look the same.
bool may_be_misdirected(const CallWait& w, const std::vector<const CallWait*>& messages) {
  const CollectiveCall& own = *w.message;
  return own.sequence == 1 && std::any_of(messages.begin(), messages.end(), [&](const CallWait* other) {
           const CollectiveCall& call = *other->message;
           return other->on.contains(w.rank) && call.op != own.op && call.tag == own.tag &&
                  call.count == own.count && call.dtype == own.dtype;
         });
}

// The ranks in the circle itself, without ranks that only wait for members of the circle.
RankSet circle_of(const WaitGraph& graph, const RankSet& absent) {
  RankSet waiting;
  for (const CallWait& w : graph.waits) {
    waiting.insert(w.rank);
  }
  // A rank that waits, directly or through others, for an absent or held rank is explained by that rank.
  RankSet explained = absent;
  explained.insert(graph.held);
  for (size_t before = 0; before != explained.size();) {
    before = explained.size();
    for (const CallWait& w : graph.waits) {
      if (!explained.contains(w.rank) && meet(w.on, explained)) {
        explained.insert(w.rank);
      }
    }
  }
  RankSet circle = waiting.minus(explained);
  for (size_t before = 0; before != circle.size();) {
    before = circle.size();
    RankSet awaited;
    for (const CallWait& w : graph.waits) {
      if (circle.contains(w.rank)) {
        awaited.insert(w.on);
      }
    }
    circle = common(circle, awaited);
  }
  return circle;
}

RankSet absent_ranks(const WaitGraph& graph) {
  RankSet awaited;
  RankSet waiting = graph.held;
  for (const CallWait& w : graph.waits) {
    awaited.insert(w.on);
    waiting.insert(w.rank);
  }
  return awaited.minus(waiting);
}

}  // namespace

WaitGraph wait_graph(const std::vector<CallGroup>& groups) {
  WaitGraph graph;
  for (const CallGroup& group : groups) {
    graph.held.insert(group.standing);
    add_collective_waits(group, graph);
    add_message_waits(group, graph);
    add_lock_waits(group, graph);
  }
  return graph;
}

RankSet standing_for_ever(const model::CollectiveFacts& facts, const std::vector<CallGroup>& groups,
                          const RankSet& gone) {
  RankSet several_threads;
  for (const model::RankCollectives& rank : facts.ranks) {
    if (std::count_if(rank.lanes.begin(), rank.lanes.end(), [](const model::CallLane& lane) {
          return lane.source == model::CallSource::torch;
        }) != 1) {
      several_threads.insert(rank.rank);
    }
  }
  WaitGraph graph = wait_graph(groups);
  std::erase_if(graph.waits, [&](const CallWait& w) {
    const CollectiveCall* call = call_in(w);
    return call == nullptr || call->stage != model::CallStage::called || several_threads.contains(w.rank);
  });
  // Nobody in the set can go on, if each waits for another of the set.
  RankSet out = gone;
  for (const CallWait& w : graph.waits) {
    out.insert(w.rank);
  }
  for (size_t before = 0; before != out.size();) {
    before = out.size();
    RankSet bound = gone;
    for (const CallWait& w : graph.waits) {
      if (out.contains(w.rank) && meet(w.on, out)) {
        bound.insert(w.rank);
      }
    }
    out = bound;
  }
  return out.minus(gone);
}

std::optional<CallFinding> find_message_difference(const std::vector<CallGroup>& groups) {
  for (const CallGroup& group : groups) {
    for (const Message& m : messages_of(group)) {
      if (m.counterpart != Counterpart::differs) {
        continue;
      }
      CallFinding f{.fault = CallFault::message,
                    .collective = communicator_of(group, m.call->sequence),
                    .waiting = RankSet{m.rank, m.peer},
                    .tie = true};
      add_row(f.collective.calls, row_of(group, m.rank, *m.call));
      model::CalledBy other = row_of(group, m.peer, *m.other);
      other.sequence = std::max(other.sequence, m.call->sequence);
      add_row(f.collective.calls, std::move(other));
      arrange(f.collective, {});
      return f;
    }
  }
  return std::nullopt;
}

std::optional<CallFinding> find_absent(const WaitGraph& graph) {
  const RankSet absent = absent_ranks(graph);
  // Waits for absent ranks, per call. The call with the most ranks is reported.
  struct Site {
    std::vector<const CallWait*> waits;
    RankSet accused;
    double age_s = 0;

    [[nodiscard]] auto weight() const {
      return std::tuple(waits.size(), waits.front()->message == nullptr, age_s, -waits.front()->rank);
    }
  };
  std::vector<Site> sites;
  RankSet accused;
  for (const CallWait& w : graph.waits) {
    if (!meet(w.on, absent)) {
      continue;
    }
    auto site = std::find_if(sites.begin(), sites.end(), [&](const Site& s) {
      const CallWait& first = *s.waits.front();
      return first.group == w.group && first.sequence == w.sequence && first.message == w.message;
    });
    site = site == sites.end() ? sites.emplace(sites.end()) : site;
    site->waits.push_back(&w);
    site->accused.insert(common(w.on, absent));
    site->age_s = std::max(site->age_s, age_of(w));
    accused.insert(site->accused);
  }
  if (sites.empty()) {
    return std::nullopt;
  }
  const Site& main = *std::max_element(sites.begin(), sites.end(),
                                       [](const Site& a, const Site& b) { return a.weight() < b.weight(); });
  const CallWait& first = *main.waits.front();
  if (first.message != nullptr) {
    return message_finding(main.waits, main.accused);
  }
  CallFinding f{.fault = CallFault::not_entered,
                .collective = communicator_of(*first.group, first.sequence),
                .accused = accused,
                .complete = first.group->unseen == 0};
  for (const CallWait* w : main.waits) {
    add_wait_row(*w, f.collective.calls);
    f.waiting.insert(w->rank);
  }
  f.collective.calls.push_back(row_of_absent(main.accused));
  arrange(f.collective, main.accused);
  return f;
}

std::optional<CallFinding> find_stray_message(const WaitGraph& graph) {
  for (const CallWait& message : graph.waits) {
    if (message.message == nullptr || message.message->sequence > 1 || is_lock_call(message.message->op)) {
      continue;
    }
    const auto peer = std::find_if(graph.waits.begin(), graph.waits.end(), [&](const CallWait& w) {
      return w.message == nullptr && message.on.contains(w.rank) && w.on == RankSet{message.rank};
    });
    if (peer == graph.waits.end() || stands_at_its_end(*peer)) {
      continue;
    }
    CallFinding f{.fault = CallFault::operation,
                  .collective = communicator_of(*peer->group, peer->sequence),
                  .accused = {message.rank},
                  .complete = peer->group->unseen == 0};
    for (const CallWait& w : graph.waits) {
      if (w.message == nullptr && w.group == peer->group && w.sequence == peer->sequence) {
        add_wait_row(w, f.collective.calls);
        f.waiting.insert(w.rank);
      }
    }
    if (f.waiting.size() < 2) {
      continue;  // two ranks that wait for each other: either may be wrong
    }
    add_wait_row(message, f.collective.calls);
    arrange(f.collective, f.accused);
    return f;
  }
  return std::nullopt;
}

namespace {

struct Circle {
  RankSet ranks;
  std::vector<const CallWait*> waits;
};

bool makes_a_group(const CallWait& w) {
  const CollectiveCall* call = w.message == nullptr ? call_in(w) : nullptr;
  return call != nullptr && (call->op == "new_group" || call->op == "split_group");
}

// Ranks that wait only for other ranks of the set would go on with them.
RankSet without_victims(const RankSet& set, const std::vector<const CallWait*>& waits) {
  RankSet out;
  for (const CallWait* w : waits) {
    if (set.contains(w->rank) && !set.contains(w->on)) {
      out.insert(w->rank);
    }
  }
  return out;
}

// Ranks in a message for one of these ranks, which has departed from its routine while they have not.
RankSet owed_by(const RankSet& debtors, const Circle& circle, const Departures& departures) {
  const RankSet departed = common(debtors, departures.certain());
  RankSet out;
  for (const CallWait* w : circle.waits) {
    const bool usual = w->message != nullptr && departures.of(w->rank) == nullptr;
    out.insert(usual && meet(w->on, departed) ? RankSet{w->rank} : RankSet());
  }
  return out;
}

// A call in which most ranks of the communicator stand and which is new for all of them: those that are
// elsewhere have left it out.
std::optional<CallFinding> left_out(const WaitGraph& graph, const Circle& circle,
                                    const Departures& departures) {
  for (const CallWait* w : circle.waits) {
    if (w->message != nullptr ||
        (!makes_a_group(*w) && !departures.together(w->group->any->id, w->sequence))) {
      continue;
    }
    CallFinding f{.fault = CallFault::not_entered,
                  .collective = communicator_of(*w->group, w->sequence),
                  .complete = w->group->unseen == 0};
    for (const CallWait& other : graph.waits) {
      if (other.group == w->group && other.sequence == w->sequence && other.message == nullptr) {
        f.waiting.insert(other.rank);
        add_wait_row(other, f.collective.calls);
      }
    }
    f.accused = without_victims(w->on, circle.waits);
    f.accused = f.accused.minus(owed_by(f.waiting, circle, departures));
    if (!is_majority(f.waiting.size(), f.waiting.size() + w->on.size()) || f.accused.empty()) {
      continue;
    }
    f.collective.calls.push_back(row_of_absent(f.accused));
    arrange(f.collective, f.accused);
    return f;
  }
  return std::nullopt;
}

std::optional<CallFinding> departed(const Circle& circle, const Departures& departures) {
  const RankSet all = common(circle.ranks, departures.certain());
  const RankSet accused = all == circle.ranks ? RankSet() : without_victims(all, circle.waits);
  if (accused.empty()) {
    return std::nullopt;
  }
  // Ranks that have departed in different ways are worded by their calls.
  const bool alike = departures.of_all(accused) != nullptr;
  CallFinding f{.fault = alike ? CallFault::departed : CallFault::operation,
                .accused = accused,
                .waiting = circle.ranks.minus(accused)};
  for (const CallWait* w : circle.waits) {
    if (f.collective.id.empty() && accused.contains(w->rank) == alike) {
      f.collective = communicator_of(*w->group, w->message != nullptr ? w->message->sequence : w->sequence);
    }
  }
  for (const CallWait* w : circle.waits) {
    add_wait_row(*w, f.collective.calls);
  }
  arrange(f.collective, f.accused);
  return f;
}

// A rank inside a collective cannot send or receive the messages that others wait for. A rank inside a
// message waits itself. Who waits in a collective for a rank that has to wait for others is a victim.
RankSet owing(const Circle& circle, const std::vector<const CallWait*>& messages) {
  RankSet sending;
  for (const CallWait* w : messages) {
    sending.insert(w->rank);
  }
  RankSet accused;
  for (const CallWait* w : circle.waits) {
    if (w->message != nullptr || sending.contains(w->rank)) {
      continue;
    }
    const bool owes = std::any_of(messages.begin(), messages.end(), [&](const CallWait* m) {
      return w->on.contains(m->rank) && m->on.contains(w->rank);
    });
    if (owes) {
      accused.insert(w->rank);
    }
  }
  for (const CallWait* w : messages) {
    if (may_be_misdirected(*w, messages)) {
      accused = accused.minus(w->on);
    }
  }
  return accused;
}

CallFinding circle_of_messages(const Circle& circle, std::vector<const CallWait*> messages) {
  const RankSet accused = owing(circle, messages);
  const auto key = [&](const CallWait* w) {
    return std::tuple(!meet(w->on, accused), w->message->op, -age_of(*w), w->message->sequence);
  };
  std::stable_sort(messages.begin(), messages.end(),
                   [&](const CallWait* a, const CallWait* b) { return key(a) < key(b); });
  CallFinding f = message_finding(messages, accused);
  f.tie = accused.empty();
  f.waiting = circle.ranks.minus(f.accused);
  for (const CallWait* w : circle.waits) {
    if (w->message == nullptr) {
      add_wait_row(*w, f.collective.calls);
    }
  }
  arrange(f.collective, f.accused);
  f.collective.op = f.tie ? messages.front()->message->op : f.collective.op;
  return f;
}

// A thread that waits does not keep another thread of the rank from a call. If the accused's calls in the
// group came from another thread, that thread has not come.
std::optional<CallFinding> missing_thread(const Circle& circle, const CallGroup& group,
                                          const RankSet& accused) {
  std::string thread;
  for (const CallWait* w : circle.waits) {
    const CollectiveCall* stands = accused.contains(w->rank) ? call_in(*w) : nullptr;
    const Member* m = stands != nullptr ? group.member(w->rank) : nullptr;
    if (stands == nullptr) {
      continue;
    }
    if (m == nullptr || m->comm == nullptr || m->comm->calls.empty() || stands->thread.empty() ||
        m->comm->calls.back().thread == stands->thread || open_call(*m) != 0) {
      return std::nullopt;
    }
    thread = m->comm->calls.back().thread;
  }
  CallFinding f{.fault = CallFault::not_entered, .accused = accused, .thread = thread};
  for (const CallWait* w : circle.waits) {
    if (w->group == &group) {
      f.collective = f.waiting.empty() ? communicator_of(group, w->sequence) : f.collective;
      f.waiting.insert(w->rank);
      add_wait_row(*w, f.collective.calls);
    }
  }
  f.complete = group.unseen == 0;
  f.collective.calls.push_back(row_of_absent(accused));
  arrange(f.collective, f.accused);
  return f;
}

CallFinding circle_of_collectives(const WaitGraph& graph, const Circle& circle) {
  // With those outside of the circle that stand in the same call.
  std::map<const CallGroup*, RankSet> by_group;
  for (const CallWait* w : circle.waits) {
    for (const CallWait& other : graph.waits) {
      if (other.group == w->group && other.sequence == w->sequence && other.message == w->message) {
        by_group[w->group].insert(other.rank);
      }
    }
  }
  const auto larger = [](const auto& a, const auto& b) {
    return std::tuple(a.second.size(), -a.second.lowest()) < std::tuple(b.second.size(), -b.second.lowest());
  };
  const auto most = std::max_element(by_group.begin(), by_group.end(), larger);
  const auto rivals = std::count_if(by_group.begin(), by_group.end(),
                                    [&](const auto& g) { return g.second.size() == most->second.size(); });
  CallFinding f{.fault = CallFault::order};
  f.accused = rivals > 1 ? RankSet() : without_victims(circle.ranks.minus(most->second), circle.waits);
  f.tie = f.accused.empty();
  if (auto missing = f.tie ? std::nullopt : missing_thread(circle, *most->first, f.accused)) {
    return *missing;
  }
  f.waiting = circle.ranks.minus(f.accused);
  for (const CallWait* w : circle.waits) {
    if (f.collective.id.empty() && w->group == most->first) {
      f.collective = communicator_of(*w->group, w->sequence);
    }
  }
  for (const CallWait* w : circle.waits) {
    add_wait_row(*w, f.collective.calls);
  }
  arrange(f.collective, f.accused);
  return f;
}

}  // namespace

std::optional<CallFinding> find_circle(const WaitGraph& graph, const Departures& departures) {
  Circle circle{.ranks = circle_of(graph, absent_ranks(graph))};
  if (circle.ranks.empty()) {
    return std::nullopt;
  }
  std::vector<const CallWait*> messages;
  for (const CallWait& w : graph.waits) {
    if (circle.ranks.contains(w.rank) && meet(w.on, circle.ranks)) {
      circle.waits.push_back(&w);
      if (w.message != nullptr) {
        messages.push_back(&w);
      }
    }
  }
  // A rank at its end has come too early for the messages that it still owes; nobody has left the end out.
  if (!messages.empty() && std::any_of(circle.waits.begin(), circle.waits.end(),
                                       [](const CallWait* w) { return stands_at_its_end(*w); })) {
    return circle_of_messages(circle, std::move(messages));
  }
  if (auto f = left_out(graph, circle, departures)) {
    return f;
  }
  if (auto f = departed(circle, departures)) {
    return f;
  }
  return messages.empty() ? circle_of_collectives(graph, circle)
                          : circle_of_messages(circle, std::move(messages));
}

}  // namespace xpurun::report
