// NodeLogic: everything that the helper of one node decides, without sockets, clocks and files. Messages of
// its supervisor and of the other nodes come in, messages go out through Outlet. One thread.
#pragma once

#include "launcher/nodes/agent/protocol/asks.h"
#include "launcher/nodes/agent/protocol/membership.h"
#include "launcher/nodes/agent/protocol/outlet.h"
#include "launcher/nodes/agent/protocol/rounds.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace xpurun::nodes {

class NodeLogic {
 public:
  NodeLogic(launcher::StartMessage start, uint64_t instance, Outlet outlet);
  NodeLogic(const NodeLogic&) = delete;
  NodeLogic& operator=(const NodeLogic&) = delete;

  void from_supervisor(const launcher::ToHelper& message);
  // `at` and `wall_ns`: when the bytes arrived. Strangers' and malformed messages are counted and dropped.
  void from_server(std::string_view bytes, base::MonoNs at, int64_t wall_ns);
  // Call once after all messages that came together. A step of a round looks at all nodes, so one step per
  // message would cost the square of their number.
  void after_messages();
  // Counts messages that were dropped before they reached this object.
  void count_dropped(uint64_t n) { dropped_ += n; }

  // `server`: URL without secrets. `largest`: bytes of a message that the server accepts.
  void connected(const std::string& server, uint64_t largest);
  void disconnected(const std::string& reason);
  // There is no first connection yet; the argument is the reason.
  void unreachable(const std::string& reason) { reason_ = reason; }

  // Call every 0.25 s.
  void tick();

  // Whether the states of all nodes should be subscribed to.
  bool hears_all() const { return members_.hears_all(); }
  // The job has ended here: sends the last message.
  bool ended() const { return ended_; }
  // Whether other nodes still need the server that this node runs.
  bool others_work() const;
  uint64_t dropped() const { return dropped_; }

 private:
  // From the supervisor.
  void handle(const launcher::StartMessage& m);
  void handle(const launcher::StateMessage& m);
  void handle(const launcher::StalledMessage& m);
  void handle(const launcher::DumpedMessage& m);
  void handle(const launcher::VerdictMessage& m);
  void handle(const launcher::ActMessage& m);
  void handle(const launcher::AnswerMessage& m);
  void handle(const launcher::AskMessage& m);
  void handle(const launcher::EndMessage& m);
  // From a member; false: dropped.
  struct Arrival {
    Member& from;
    base::MonoNs at = 0;
    int64_t wall_ns = 0;
  };
  bool hear(const Arrival& a, const NodeState& m);
  bool hear(const Arrival& a, const DumpCall& m);
  bool hear(const Arrival& a, const Offer& m);
  bool hear(const Arrival& a, const Want& m);
  bool hear(const Arrival& a, const Part& m);
  bool hear(const Arrival& a, const Taken& m);
  bool hear(const Arrival& a, const Ping& m);
  bool hear(const Arrival& a, const Pong& m);
  bool hear(const Arrival& a, const Ask& m);
  bool hear(const Arrival& a, const Answer& m);
  bool hear(const Arrival& a, const JobAct& m);
  bool hear(const Arrival& a, const launcher::VerdictMessage& m);

  bool dispatch(const Message& message, base::MonoNs at, int64_t wall_ns);
  void publish_state();
  void measure_clocks();
  void report_to_supervisor();
  void repeat_act();
  std::set<std::string> living_others();
  base::MonoNs now() const { return outlet_.now(); }

  launcher::StartMessage start_;
  uint64_t instance_;
  Outlet outlet_;
  Membership members_;
  Rounds rounds_;
  Asks asks_;
  launcher::StateMessage state_;

  std::string server_;
  std::string reason_ = "the server has not answered yet";
  bool connected_ = false;
  bool said_joined_ = false;
  bool said_alone_ = false;
  base::MonoNs disconnected_at_;
  base::MonoNs next_state_ = 0;
  base::MonoNs next_nodes_ = 0;
  bool others_trained_ = false;  // in the last list of nodes
  bool ended_ = false;
  bool step_wanted_ = false;  // by a message since the last step
  uint64_t dropped_ = 0;

  // Requests that this node's supervisor has not answered: who asks, and under which number.
  std::map<uint64_t, std::pair<std::string, uint64_t>> requests_;
  uint64_t next_request_ = 1;
  // What this node, as the elected one, has decided for the job.
  std::optional<JobAct> act_;
  base::MonoNs next_act_ = 0;
  std::set<uint64_t> acts_;  // heard
};

}  // namespace xpurun::nodes
