// Agent: the helper program xpurun-nodes on one event loop: the supervisor's socket, the connection to the
// server, the background thread for files, and the logic between them.
#pragma once

#include "launcher/nodes/agent/background.h"
#include "launcher/nodes/agent/protocol/node_logic.h"
#include "launcher/nodes/agent/secret.h"
#include "launcher/nodes/agent/server.h"
#include "launcher/nodes/agent/supervisor_channel.h"
#include "launcher/nodes/agent/transport.h"
#include "launcher/os/timer.h"

#include <memory>
#include <optional>
#include <string>

namespace xpurun::nodes {

class Agent {
 public:
  Agent(launcher::EventLoop& loop, base::UniqueFd socket);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until the supervisor ends it. Returns the exit status of the program.
  base::Result<int> run();

 private:
  void from_supervisor(const launcher::ToHelper& message);
  void begin(const launcher::StartMessage& start);
  base::Status prepare(const launcher::StartMessage& start);
  void start_server();
  void fail(const std::string& reason);
  void connect(const std::string& url, const std::string& token);
  // --nats auto on the other nodes: connects as the secret file says, now or when it is there.
  void look_for_secret();

  Outlet make_outlet();
  void send(const std::string& subject, Body body);
  void publish_state(const NodeState& state, bool elected);
  void take_received();
  void take(const Received& received);
  void tick();
  void subscribe_states();
  // After the last message.
  void leave();

  launcher::EventLoop& loop_;
  SupervisorChannel supervisor_;
  launcher::StartMessage start_;
  uint64_t instance_ = 0;
  std::string prefix_;  // of the job's subjects, with the last dot
  std::unique_ptr<Server> server_;
  std::string secret_file_;  // that this node has written; empty: none
  Secret secret_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<NodeLogic> logic_;
  std::unique_ptr<Background> background_;
  launcher::Timer secret_timer_{loop_};
  bool hears_all_ = false;
  bool ever_connected_ = false;
  bool leaving_ = false;
  base::MonoNs leave_at_ = 0;
};

}  // namespace xpurun::nodes
