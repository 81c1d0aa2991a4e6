#include "launcher/nodes/agent/protocol/node_logic.h"

#include "common/base/hash.h"
#include "launcher/nodes/node_limits.h"

#include <algorithm>
#include <utility>

namespace xpurun::nodes {

using namespace launcher;
using base::MonoNs;
using base::s_to_ns;

namespace {

constexpr int kNotFound = 404;
constexpr int kUnavailable = 503;
// The first measurements of a clock follow each other quickly.
constexpr size_t kQuickPings = 4;
constexpr double kQuickPingS = 0.5;
constexpr size_t kMostPingsAtOnce = 50;
constexpr size_t kMostActs = 1000;
// Room for the JSON around a chunk.
constexpr uint64_t kMessageOverhead = 2048;
constexpr uint64_t kSmallestChunk = 1024;

Self self_of(const StartMessage& start, uint64_t instance) {
  return {.node = start.node,
          .instance = instance,
          .node_rank = start.node_rank,
          .nodes = start.nodes,
          .world_size = start.world_size,
          .mark = start.mark};
}

}  // namespace

NodeLogic::NodeLogic(StartMessage start, uint64_t instance, Outlet outlet)
    : start_(std::move(start)),
      instance_(instance),
      outlet_(std::move(outlet)),
      members_(self_of(start_, instance), outlet_.now()),
      rounds_(start_, instance, members_, outlet_),
      disconnected_at_(outlet_.now()) {}

void NodeLogic::from_supervisor(const ToHelper& message) {
  std::visit([this](const auto& m) { handle(m); }, message);
  rounds_.advance();
}

// A second start changes nothing.
void NodeLogic::handle(const StartMessage& /*m*/) {}

void NodeLogic::handle(const StateMessage& m) {
  const bool changed = m.phase != state_.phase;
  if (state_.phase == NodePhase::stalled && m.phase == NodePhase::running) {
    rounds_.moves_again();
  }
  state_ = m;
  if (changed) {
    publish_state();
  }
}

void NodeLogic::handle(const StalledMessage& m) {
  rounds_.stalled(m);
  publish_state();
}

void NodeLogic::handle(const DumpedMessage& m) {
  rounds_.dumped(m);
}

void NodeLogic::handle(const VerdictMessage& m) {
  rounds_.judged(m);
}

void NodeLogic::handle(const ActMessage& m) {
  act_ = {.id = base::hash_words(instance_, {static_cast<uint64_t>(now())}), .act = m};
  next_act_ = now();
  repeat_act();
}

void NodeLogic::handle(const AnswerMessage& m) {
  const auto found = requests_.find(m.id);
  if (found == requests_.end()) {
    return;
  }
  const auto& [node, number] = found->second;
  outlet_.to_node(node, Answer{.id = number, .status = m.status, .body = m.body.substr(0, kLongestBody)});
  requests_.erase(found);
}

void NodeLogic::handle(const AskMessage& m) {
  std::set<std::string> targets = living_others();
  if (!m.node.empty()) {
    std::erase_if(targets, [&](const std::string& name) { return name != m.node; });
  }
  const base::MonoNs deadline = now() + s_to_ns(m.limit_s);
  const uint64_t number = connected_ && !targets.empty() ? asks_.start(m.id, targets, deadline) : 0;
  if (number == 0) {
    const int status = connected_ && targets.empty() ? kNotFound : kUnavailable;
    outlet_.to_supervisor(AnswersMessage{.id = m.id, .node = m.node, .status = status, .last = true});
    return;
  }
  for (const std::string& node : targets) {
    // A node that hears only the elected one does not know this node yet.
    outlet_.to_node(node, members_.own().state);
    outlet_.to_node(node, Ask{.id = number, .verb = m.verb, .arguments = m.arguments});
  }
}

std::set<std::string> NodeLogic::living_others() {
  std::set<std::string> out;
  for (const auto& [name, member] : members_.others()) {
    if (members_.alive(member, now())) {
      out.insert(name);
    }
  }
  return out;
}

void NodeLogic::handle(const EndMessage& m) {
  state_.phase = NodePhase::ended;
  state_.exit_status = m.exit_status;
  repeat_act();
  publish_state();
  ended_ = true;
}

void NodeLogic::publish_state() {
  next_state_ = now() + s_to_ns(kStateIntervalS);
  members_.set_own({.node_rank = start_.node_rank,
                    .host = start_.host,
                    .mark = start_.mark,
                    .expected = start_.local_ranks,
                    .claim = rounds_.claim(),
                    .state = state_},
                   now());
  if (connected_) {
    outlet_.publish_state(members_.own().state, members_.is_elected(now()));
  }
}

void NodeLogic::connected(const std::string& server, uint64_t largest) {
  connected_ = true;
  server_ = server;
  const uint64_t room = largest > kMessageOverhead ? largest - kMessageOverhead : 0;
  rounds_.set_chunk(std::clamp<uint64_t>(room, kSmallestChunk, kChunkBytes));
  members_.connected(now());
  publish_state();
}

void NodeLogic::disconnected(const std::string& reason) {
  if (connected_) {
    disconnected_at_ = now();
  }
  connected_ = false;
  reason_ = reason;
  members_.disconnected();
}

void NodeLogic::from_server(std::string_view bytes, MonoNs at, int64_t wall_ns) {
  const auto message = decode(bytes);
  if (!message || !dispatch(*message, at, wall_ns)) {
    ++dropped_;
    return;
  }
  // dispatch() decides on states: most of them bring nothing new.
  step_wanted_ = step_wanted_ || !std::holds_alternative<NodeState>(message->body);
}

void NodeLogic::after_messages() {
  if (std::exchange(step_wanted_, false)) {
    rounds_.advance();
  }
}

bool NodeLogic::dispatch(const Message& message, MonoNs at, int64_t wall_ns) {
  if (const auto* state = std::get_if<NodeState>(&message.body)) {
    const Member* before = members_.find(message.from);
    const bool known = before != nullptr;
    const bool claims = state->claim.present() && (!known || before->state.claim.stall != state->claim.stall);
    if (!members_.take(message.from, message.instance, *state, now())) {
      return false;
    }
    if (!known) {
      // The newcomer need not wait two seconds to hear of this node.
      next_state_ = std::min(next_state_, now() + s_to_ns(kRepeatS / 2));
      next_nodes_ = std::min(next_nodes_, now() + s_to_ns(kRepeatS / 2));
    }
    step_wanted_ = step_wanted_ || claims;
    return true;
  }
  Member* from = members_.hear(message.from, message.instance, now());
  if (from == nullptr) {
    return false;
  }
  const Arrival arrival{.from = *from, .at = at, .wall_ns = wall_ns};
  return std::visit([&](const auto& body) { return hear(arrival, body); }, message.body);
}

bool NodeLogic::hear(const Arrival& /*a*/, const NodeState& /*m*/) {
  return true;  // dispatch() takes states
}
bool NodeLogic::hear(const Arrival& a, const DumpCall& m) {
  return rounds_.called(a.from, m);
}
bool NodeLogic::hear(const Arrival& a, const Offer& m) {
  return rounds_.offered(a.from, m);
}
bool NodeLogic::hear(const Arrival& a, const Want& m) {
  return rounds_.wanted(a.from, m);
}
bool NodeLogic::hear(const Arrival& a, const Part& m) {
  return rounds_.received(a.from, m);
}
bool NodeLogic::hear(const Arrival& a, const Taken& m) {
  return rounds_.taken(a.from, m);
}
bool NodeLogic::hear(const Arrival& a, const VerdictMessage& m) {
  return rounds_.verdict(a.from, m);
}

bool NodeLogic::hear(const Arrival& a, const Ping& m) {
  outlet_.to_node(a.from.node, Pong{.sent_ns = m.sent_ns, .wall_ns = a.wall_ns});
  return true;
}

bool NodeLogic::hear(const Arrival& a, const Pong& m) {
  a.from.clock.add(m.sent_ns, a.at, m.wall_ns, a.wall_ns);
  return true;
}

bool NodeLogic::hear(const Arrival& a, const Ask& m) {
  if (requests_.size() >= kMostPendingRequests) {
    outlet_.to_node(a.from.node, Answer{.id = m.id, .status = kUnavailable});
    return true;
  }
  requests_[next_request_] = {a.from.node, m.id};
  outlet_.to_supervisor(
      RequestMessage{.id = next_request_, .node = a.from.node, .verb = m.verb, .arguments = m.arguments});
  ++next_request_;
  return true;
}

bool NodeLogic::hear(const Arrival& a, const Answer& m) {
  auto answers = asks_.answered(a.from.node, m.id, m.status, m.body);
  for (AnswersMessage& answer : answers) {
    outlet_.to_supervisor(std::move(answer));
  }
  return !answers.empty();
}

bool NodeLogic::hear(const Arrival& a, const JobAct& m) {
  if (members_.elected(now()) != &a.from) {
    return false;
  }
  if (acts_.size() >= kMostActs) {
    acts_.clear();
  }
  // Actions are repeated until the elected helper ends; each is carried out once.
  if (acts_.insert(m.id).second) {
    outlet_.to_supervisor(m.act);
  }
  return true;
}

void NodeLogic::repeat_act() {
  if (act_ && connected_) {
    next_act_ = now() + s_to_ns(kStateIntervalS);
    outlet_.to_all(*act_);
  }
}

void NodeLogic::measure_clocks() {
  const bool elected = members_.is_elected(now());
  const Member* chosen = members_.elected(now());
  size_t sent = 0;
  for (auto& [name, m] : members_.others()) {
    const bool wanted = (elected || &m == chosen) && now() >= m.next_ping && members_.alive(m, now());
    if (wanted && sent < kMostPingsAtOnce) {
      ++sent;
      m.next_ping = now() + s_to_ns(m.clock.measurements() < kQuickPings ? kQuickPingS : kPingIntervalS);
      outlet_.to_node(name, Ping{.sent_ns = now()});
    }
  }
}

void NodeLogic::report_to_supervisor() {
  const Member* chosen = members_.elected(now());
  if (connected_ && !said_joined_ && chosen != nullptr) {
    said_joined_ = true;
    said_alone_ = false;
    // An earlier list shows only this node, and a claim needs others.
    next_nodes_ = now();
    outlet_.to_supervisor(
        JoinedMessage{.server = server_, .elected = chosen->node, .nodes = members_.living(now())});
  }
  if (!connected_ && !said_alone_ && now() - disconnected_at_ >= s_to_ns(kAloneAfterS)) {
    said_alone_ = true;
    said_joined_ = false;
    outlet_.to_supervisor(AloneMessage{.reason = reason_});
  }
  // A supervisor may wait for the end of the others.
  const bool others_train = members_.others_train(now());
  if (now() >= next_nodes_ || (others_trained_ && !others_train)) {
    others_trained_ = others_train;
    next_nodes_ = now() + s_to_ns(kStateIntervalS);
    outlet_.to_supervisor(NodesMessage{.nodes = members_.infos(now()), .dropped = dropped_});
  }
}

void NodeLogic::tick() {
  const bool was_eligible = members_.own().state.eligible;
  members_.update(now());
  // The first state in which a node can be elected is not delayed.
  if (now() >= next_state_ || was_eligible != members_.own().state.eligible) {
    publish_state();
  }
  if (connected_) {
    measure_clocks();
    if (now() >= next_act_) {
      repeat_act();
    }
  }
  if (!asks_.empty()) {
    for (AnswersMessage& answer : asks_.expired(now(), living_others())) {
      outlet_.to_supervisor(std::move(answer));
    }
  }
  // "joined" comes before the first request of a dump.
  report_to_supervisor();
  rounds_.tick();
}

bool NodeLogic::others_work() const {
  return connected_ && members_.living(now()) > 1;
}

}  // namespace xpurun::nodes
