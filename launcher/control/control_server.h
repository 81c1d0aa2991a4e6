// ControlServer: lets other programs of the same user ask a running supervisor. One JSON object a line over a
// Unix stream socket: {"cmd":"status"} -> {"ok":true, "run":"<id>", "ranks":[...], ...}, a LiveStatus
// docs/control.md has the others. An unknown request -> {"ok":false,"code":"bad_request","error":"..."}, and
// changes nothing. StreamServer bounds what slow, huge, many or silent clients cost.
#pragma once

#include "common/base/result.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/stream_server.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace xpurun::launcher {

class ControlServer {
 public:
  // Answers one request, now or later, exactly once.
  using Reply = std::function<void(const nlohmann::ordered_json&)>;
  using Handler = std::function<void(const nlohmann::json& request, Reply reply)>;

  ControlServer(EventLoop& loop, Handler handler);
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  base::Status listen(const std::string& path);

 private:
  struct Client {
    StreamServer::Id id = 0;
    size_t unanswered = 0;
    bool asks_no_more = false;  // has shut down its sending side
  };

  void received(StreamServer::Id id, std::string& input);
  void input_ended(StreamServer::Id id, const std::string& last_line);
  void handle(StreamServer::Id id, const std::string& line);
  void answered(const std::shared_ptr<Client>& client, const nlohmann::ordered_json& reply);
  std::shared_ptr<Client> client_of(StreamServer::Id id);
  void send(StreamServer::Id id, const nlohmann::ordered_json& reply);

  Handler handler_;
  std::map<StreamServer::Id, std::shared_ptr<Client>> asking_;  // clients that have sent something
  StreamServer clients_;
};

}  // namespace xpurun::launcher
